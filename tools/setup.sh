#!/bin/sh
# Makes the virtual environment DIR with everything for running, developing and testing.
# Uses uv where it is installed and the standard library's venv with pip otherwise.
set -eu
venv=$1
python=${PYTHON:-python3}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "gapless needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2
    exit 1
}
if command -v uv >/dev/null 2>&1; then
    uv venv --quiet --allow-existing --python "$python" "$venv"
    uv pip install --quiet --python "$venv/bin/python" --constraint constraints.txt --editable . --group dev
else
    "$python" -m venv "$venv" || {
        echo "the venv module is missing; on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "pip>=25.1"
    "$venv/bin/python" -m pip install --quiet --constraint constraints.txt --editable . --group dev
fi
