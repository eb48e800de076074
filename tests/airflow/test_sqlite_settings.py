"""airflow/first_steps/airflow_local_settings.py: a SQLite database that others write to meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "airflow" / "first_steps"

# As Airflow makes a backfill's runs: a savepoint, in which it looks and then writes, while another process writes too.
TWO_WRITERS = """
import sys, threading
from sqlalchemy import create_engine, event, text
from sqlalchemy.orm import Session
if sys.argv[2:]:
    import airflow_local_settings

def database():
    engine = create_engine(f"sqlite:///{sys.argv[1]}?timeout=60")
    event.listen(engine, "connect", lambda connection, _: connection.execute("PRAGMA journal_mode=WAL"))
    return engine

def write_too():
    began.set()
    with theirs.begin() as connection:
        connection.execute(text("INSERT INTO run VALUES (2)"))
    wrote.set()

ours, theirs = database(), database()
began, wrote = threading.Event(), threading.Event()
with ours.begin() as connection:
    connection.execute(text("CREATE TABLE run (n INT)"))
other = threading.Thread(target=write_too)
with Session(ours) as session:
    with session.begin_nested():
        session.execute(text("SELECT count(*) FROM run")).all()
        other.start()
        began.wait()
        wrote.wait(1)  # in vain, where ours is the right to write
        session.execute(text("INSERT INTO run VALUES (1)"))
    session.commit()
other.join()
with ours.begin() as connection:
    print(sorted(connection.execute(text("SELECT n FROM run")).scalars()))
"""


def two_writers(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", TWO_WRITERS, folder / "airflow.db", *words]
    return subprocess.run(command, cwd=SETTINGS, capture_output=True, text=True, timeout=300, check=False)


def test_without_it_sqlite_refuses_whatever_the_timeout(tmp_path: Path) -> None:
    assert "database is locked" in two_writers(tmp_path).stderr


def test_with_it_both_have_written(tmp_path: Path) -> None:
    done = two_writers(tmp_path, "with settings")
    assert done.stdout == "[1, 2]\n", done.stderr


def test_an_airflow_on_sqlite_loads_it(tmp_path: Path) -> None:
    """That of the tests, where there is no PostgreSQL; asked as the tutorial's is."""
    from database import SQLite

    url = SQLite(tmp_path).url
    environment = {**os.environ, "AIRFLOW_HOME": str(tmp_path), "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": url}
    code = "import airflow.settings as s; s.initialize(); import airflow_local_settings as a; print(a.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.splitlines()[-1:] == [str(tmp_path / "config" / "airflow_local_settings.py")], done.stderr


@pytest.mark.parametrize("url", ["sqlite://", "sqlite+aiosqlite://"])
def test_a_savepoint_within_a_transaction_is_left_alone(url: str) -> None:
    """Of an asynchronous engine, too, which Airflow's API server has beside the other."""
    code = f"""
import asyncio, airflow_local_settings
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import create_async_engine

def write(connection):
    for number in range(2):
        with connection.begin_nested():
            connection.execute(text(f"CREATE TABLE t{{number}} (n INT)"))

async def asynchronously():
    engine = create_async_engine({url!r})
    async with engine.begin() as connection:
        await connection.run_sync(write)
    await engine.dispose()

if "aio" in {url!r}:
    asyncio.run(asynchronously())
else:
    with create_engine({url!r}).begin() as connection:
        write(connection)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=SETTINGS, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
