"""The database of the tests' Airflow: PostgreSQL out of a wheel; SQLite where that wheel does not exist.

Scheduler, API server, DAG processor and triggerer all write, and SQLite lets one of them write at a time. Now and then
one finds it locked, and a request that has nothing wrong with it is answered by 500. Airflow itself has SQLite for
development alone: https://airflow.apache.org/docs/apache-airflow/stable/howto/set-up-database.html

The wheel `pgserver` has the programs of PostgreSQL. They are run from a copy, since they refuse to run as root, and the
user whom they run as instead may not see the folder that the wheel lies in.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Protocol

USER = "airflow"

#: Nothing here has to outlive a crash of the machine; listens on a socket alone.
SETTINGS = {
    "listen_addresses": "''",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "64MB",
    "max_connections": "200",
    "dynamic_shared_memory_type": "mmap",
}

SQLITE_SETTINGS = Path(__file__).resolve().parents[3] / "airflow" / "first_steps" / "airflow_local_settings.py"

#: pg_ctl's own minute is little on a busy machine.
_PATIENTLY = ("--wait", "--timeout", "300")


class Database(Protocol):
    """A place for Airflow's state."""

    @property
    def url(self) -> str:
        """What `[database] sql_alchemy_conn` says."""

    def stop(self) -> None:
        """End it."""


class SQLite:
    """A file. Whoever finds it locked waits a minute, in place of the five seconds of SQLite's default, and is not
    refused at once (see airflow_local_settings.py)."""

    def __init__(self, home: Path) -> None:
        (home / "config").mkdir(parents=True, exist_ok=True)
        shutil.copy(SQLITE_SETTINGS, home / "config")
        self.url = f"sqlite:///{home}/airflow.db?timeout=60"

    def stop(self) -> None:
        pass


class PostgreSQL:
    """A server of our own, in a folder of its own; running when this is made."""

    def __init__(self, wheel: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="kseg-pg-"))  # short, as a socket's path has to be
        self._data = self._folder / "data"
        self._data.mkdir(mode=0o700)
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            for part in (wheel, wheel.with_name(f"{wheel.name}.libs")):  # the programs find their libraries beside them
                shutil.copytree(part, self._folder / part.name)
            wheel = self._folder / wheel.name
            os.chown(self._data, nobody.pw_uid, nobody.pw_gid)
            self._folder.chmod(0o755)
        self._programs = wheel / "pginstall" / "bin"
        self._run("initdb", "--username", USER, "--auth", "trust", "--encoding", "UTF8", "--no-sync")
        settings = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
        self._run(
            "pg_ctl", "start", *_PATIENTLY, "--log", self._data / "log", "--options", f"-k {self._data} {settings}"
        )
        self.url = f"postgresql+psycopg2://{USER}@/postgres?host={self._data}"

    def _run(self, program: str, *arguments: str | Path) -> None:
        with tempfile.TemporaryFile() as output:  # no pipe: the server would hold it open
            done = subprocess.run(
                [self._programs / program, "--pgdata", self._data, *arguments],
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
                **self._as,
            )
            output.seek(0)
            assert done.returncode == 0, f"{program} {arguments}: {output.read().decode()}"

    def stop(self) -> None:
        """End it; connections that are left are cut."""
        self._run("pg_ctl", "stop", *_PATIENTLY, "--mode", "fast")
        shutil.rmtree(self._folder, ignore_errors=True)


def start_database(home: Path) -> Database:
    """A database for one Airflow, whose home is the folder."""
    found = importlib.util.find_spec("pgserver")
    if found is None or not found.submodule_search_locations:
        return SQLite(home)
    return PostgreSQL(Path(found.submodule_search_locations[0]))
