#!/bin/sh
# Makes the virtual environment DIR with everything for running, developing and testing, and sees to Java for Spark.
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
    uv pip install --quiet --python "$venv/bin/python" --constraint constraints.txt --editable '.[postgres,spark]' --group dev
else
    "$python" -m venv "$venv" || {
        echo "the venv module is missing; on Debian and Ubuntu: apt-get install python3-venv" >&2
        exit 1
    }
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "pip>=25.1"
    "$venv/bin/python" -m pip install --quiet --constraint constraints.txt --editable '.[postgres,spark]' --group dev
fi

# The program itself knows which Java Spark can use, and says how to get one where none can be installed here.
find_java() {
    "$venv/bin/python" -c 'from gapless.spark.session import find_java; find_java()' 2>&1 | tail -n 1 | cut -d ' ' -f 2-
}
as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}
if [ -n "$(find_java)" ]; then
    echo "installing Java for Spark" >&2
    if command -v apt-get >/dev/null 2>&1; then
        as_root apt-get update -qq || true
        for version in 17 21 25; do # whichever this release of the system has
            as_root apt-get install -qq -y openjdk-$version-jre-headless >/dev/null 2>&1 && break
        done
    elif command -v brew >/dev/null 2>&1; then
        brew install --quiet openjdk@17 || true
    fi
    find_java >&2
fi
