"""A real PostgreSQL server for tests, from the system's packages, on a free port, gone when they end."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SECONDS_TO_START = 60
END_SERVER = """
read -r _
if [ "$(id -u)" = 0 ]; then run="setpriv --reuid postgres --regid postgres --clear-groups"; fi
cd / && ${run:-} "$1" stop -w -m immediate -D "$2/data"
rm -rf "$2"
"""
HOW_TO_GET_IT = "no PostgreSQL server found; on Debian and Ubuntu: apt-get install postgresql"


def find_programs() -> Path | None:
    """The directory with ``initdb``, of the newest version that is installed."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
    if debian:
        return debian[-1].parent
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


class Server:
    """A server that can be stopped, killed and started again."""

    def __init__(self, programs: Path, home: Path) -> None:
        self._programs = programs
        self._home = home
        self._user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        if self._user is not None:
            account = pwd.getpwnam(self._user)
            os.chown(home, account.pw_uid, account.pw_gid)
        self.port = _free_port()
        self._run("initdb", "-D", f"{home}/data", "-U", "gapless", "-A", "trust", "-E", "UTF8", "--no-sync")

    @property
    def url(self) -> str:
        return f"postgresql://gapless@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories="
        log = f"{self._home}/log"
        self._run(
            "pg_ctl",
            "start",
            "-w",
            "-t",
            f"{SECONDS_TO_START}",
            "-D",
            f"{self._home}/data",
            "-l",
            log,
            "-o",
            options,
        )

    def kill(self) -> None:
        """Stop at once, as in a crash: the next start recovers."""
        self._run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", f"{self._home}/data")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        output = self._home / "output"  # a pipe would stay open as long as the server
        with output.open("w") as file:
            done = subprocess.run(
                command,
                check=False,
                user=self._user,
                group=self._user,
                cwd="/",
                stdout=file,
                stderr=file,
                stdin=subprocess.DEVNULL,
            )
        if done.returncode != 0:
            log = self._home / "log"
            said = output.read_text() + (log.read_text() if log.exists() else "")
            raise RuntimeError(f"{' '.join(command)} failed:\n{said[-4000:]}")


@contextmanager
def running_server(programs: Path) -> Iterator[Server]:
    """A new server, and nothing of it afterwards, even if the tests are killed: a guard ends it when the pipe
    from this process closes, for whatever reason."""
    home = Path(tempfile.mkdtemp(prefix="gapless-postgres-"))
    command = ["sh", "-c", END_SERVER, "guard", str(programs / "pg_ctl"), str(home)]
    guard = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        server = Server(programs, home)
        server.start()
        yield server
    finally:
        guard.communicate(timeout=SECONDS_TO_START)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
