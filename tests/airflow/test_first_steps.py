"""docs/tutorials/airflow.md, followed word by word outside of the checkout."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

pytest.importorskip("airflow.sdk")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "tutorials" / "airflow.md"
#: Seconds of a quiet machine.
PATIENCE = 600.0


def blocks(page: str) -> list[str]:
    """The bash blocks of a page, in their order."""
    return re.findall(r"^```bash\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)


class Terminal:
    """A shell that takes one block after the other, as a person types them; the first that fails ends it."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._shell = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e"],
            cwd=folder,
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.pid = self._shell.pid
        self._lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._lines.append(line)

    def type(self, block: str) -> str:
        """Run a block to its end; returns what it showed. Fails with that if it fails or does not end."""
        assert self._shell.stdin is not None
        from patience import Patience

        begin, began = len(self._lines), time.monotonic()
        self._shell.stdin.write(f'{block}\necho "-- done --"\n')
        self._shell.stdin.flush()
        patience = Patience(PATIENCE)
        while "-- done --\n" not in self._lines[begin:]:
            shown = "".join(self._lines[begin:])
            assert self._shell.poll() is None, f"failed:\n{block}\n{shown}"
            assert not patience.over(), f"does not end:\n{block}\n{shown}"
            time.sleep(0.1)
        print(f"{time.monotonic() - began:6.1f} s: {block.splitlines()[0]}")
        return "".join(self._lines[begin:]).replace("-- done --\n", "")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reader's folder, in which both environments were made already."""
    made = tmp_path / "reader"
    made.mkdir()
    for name in (".venv", ".venv-airflow"):
        (made / name).symlink_to((ROOT / name).resolve())
    return made


@pytest.fixture
def terminal(folder: Path) -> Iterator[Terminal]:
    from airflow_process import free_port, kill_family

    port = free_port()
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("AIRFLOW_", "KSEG_LAKE"))}
    environment |= {
        # Where the page's port is taken, it says what to do; the log servers' ports are none of a reader's business.
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
    }
    home = folder / "first-steps"
    shell = Terminal(folder, environment)
    yield shell
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(
            [folder / ".venv/bin/kseg", "broker", "stop", "--dir", "first-steps/kafka"],
            cwd=folder, env=environment, capture_output=True, timeout=60, check=False,
        )  # fmt: skip
    for process in psutil.process_iter():  # whatever the shell left behind, were it dead itself
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(process.pid) == shell.pid or process.environ().get("AIRFLOW_HOME") == str(home):
                kill_family(process.pid)


def _runs(folder: Path, dag: str) -> list[tuple[str, str]]:
    """Ids and states of a DAG's runs, from the database that the page's Airflow left behind."""
    with contextlib.closing(sqlite3.connect(folder / "first-steps" / "airflow.db", timeout=60)) as database:
        return database.execute("SELECT run_id, state FROM dag_run WHERE dag_id = ? ORDER BY id", [dag]).fetchall()


@pytest.mark.timeout(3600)  # bounds a hang; how long each block may take is PATIENCE
def test_the_first_steps_end_with_green_runs_and_a_repetition_that_changed_nothing(
    folder: Path, terminal: Terminal
) -> None:
    from airflow_process import BACKFILLS_END_SOON

    first, *others = blocks(PAGE.read_text(encoding="utf-8"))
    shown = [terminal.type(first)]
    with (folder / "first-steps" / "config" / "airflow_local_settings.py").open("a") as local_settings:
        local_settings.write(BACKFILLS_END_SOON)  # the page waits for it, and the test need not
    everything = "".join([*shown, *(terminal.type(block) for block in others)])
    tables = re.findall(r"first-steps/lake/(\w+): version (\d+), (\d+) rows", everything)
    assert [name for name, _, _ in tables] == ["orders", "orders_by_hour", "orders_by_hour"], everything
    assert tables[0][2] == "300"
    assert tables[1][2] == "300"
    assert tables[1] == tables[2]
    ingests = _runs(folder, "kseg_scheduled_ingest")
    assert [state for run, state in ingests if run.startswith("manual__")] == ["success"]
    [(run, state)] = _runs(folder, "kseg_downstream")
    assert run.startswith("asset_triggered__")
    assert state == "success"
    hours = [state for run, state in _runs(folder, "kseg_interval_ingest") if run.startswith("backfill__")]
    assert hours == ["success"] * 3
    # Another day, when nothing of it runs any more: it said "None" where Kafka was stopped.
    another = terminal.type('source first-steps/environment && echo "Kafka: $KSEG_BOOTSTRAP_SERVERS"')
    assert re.search(r"^Kafka: [\w.]+:\d+$", another, flags=re.MULTILINE), another
