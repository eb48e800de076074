"""``--run-file FILE``: what a run is doing, as a JSON file that another process can follow.

    {"version": 1, "command": ["kseg", "ingest", "orders.yaml"], "pid": 4711, "pid_started": 1767225600.25,
     "host": "worker-1", "started_at": "2026-01-01T00:00:00+00:00", "updated_at": "2026-01-01T00:00:09+00:00",
     "state": "running", "phase": "land", "progress": {"done": 10, "total": 40, "unit": "tasks"},
     "messages": ["the last twenty"], "spark": {"application_id": "…", "master": "…", "ui": null},
     "exit_code": null, "result": null}

The file is replaced as a whole: at the start, with each phase, at most once a second in between, every ten seconds
as a sign of life, and at the end, where `state` is done or failed and `result` is the document that `--json` prints, or
that of the error. A process id alone could by now be another program's, so `pid_started` stands beside it.

Whoever cannot send the process a SIGTERM, being on another host, makes a file `FILE.stop` beside it: with its next sign
of life the process removes that, and ends as by a SIGTERM.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click
import psutil

from kseg.etl.telemetry.progress import Progress, Unit
from kseg.jobs.commands.noted import Noted
from kseg.jobs.output.files import replace_file

VERSION: Final = 1
MESSAGES_KEPT: Final = 20
SECONDS_BETWEEN_WRITES: Final = 1.0
SECONDS_BETWEEN_SIGNS: Final = 10.0

run_file_option = Noted(
    "--run-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Keep FILE up to date with what the run is doing, as JSON, for another process to follow.",
)
"""For commands whose runs take long; `execute` writes it."""


def asked_for() -> RunFile | None:
    """The run file that the current command was given; None where it was given none, or runs outside of one."""
    name = run_file_option.given()
    return RunFile(Path(name)) if name is not None else None


class RunFile:
    """One command's run file. Use it as a context manager around the work; `over` listens to its progress."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._stop = self._path.with_name(f"{self._path.name}.stop")
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._written = 0.0
        self._messages: deque[str] = deque(maxlen=MESSAGES_KEPT)
        self._document: dict[str, Any] = {
            "version": VERSION,
            "command": ["kseg", *sys.argv[1:]],
            "pid": os.getpid(),
            "pid_started": psutil.Process().create_time(),
            "host": socket.gethostname(),
            "started_at": _now(),
            "updated_at": _now(),
            "state": "running",
            "phase": None,
            "progress": None,
            "messages": [],
            "spark": None,
            "exit_code": None,
            "result": None,
        }
        self._keeper = threading.Thread(target=self._give_signs, name="kseg-run-file", daemon=True)

    def __enter__(self) -> RunFile:
        self._write()
        self._keeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._keeper.join()
        with suppress(OSError):
            if self._document["state"] == "running":  # nobody told how it ended: the process is about to leave
                self.ended(1, None)
            self._stop.unlink(missing_ok=True)  # it came too late for this run, and is not meant for the next

    def over(self, shown: Progress) -> Progress:
        """Listens to a run, writes, and hands everything on."""
        return _Recording(self, shown)

    def ended(self, exit_code: int, result: Mapping[str, Any] | None) -> None:
        """The run is over. result: the document of `--json`."""
        state = "done" if exit_code == 0 else "failed"
        self._change(at_once=True, state=state, exit_code=exit_code, result=result)

    def began(self, phase: str) -> None:
        self._change(at_once=True, phase=phase, progress=None)

    def came_to(self, done: int, total: int | None, unit: Unit) -> None:
        self._change(progress={"done": done, "total": total, "unit": unit})

    def said(self, text: str) -> None:
        self._messages.append(text)
        self._change(messages=list(self._messages))

    def _change(self, *, at_once: bool = False, **values: Any) -> None:
        self._document.update(values)
        if at_once or time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            self._write()

    def _give_signs(self) -> None:
        while not self._over.wait(SECONDS_BETWEEN_SIGNS):
            with suppress(OSError):
                self._write()
            with suppress(OSError):
                self._stop.unlink()  # there is none, as a rule
                os.kill(os.getpid(), signal.SIGTERM)

    def _write(self) -> None:
        with self._lock:
            self._written = time.monotonic()
            if self._document["spark"] is None:
                self._document["spark"] = _spark()
            text = json.dumps(self._document | {"updated_at": _now()}, ensure_ascii=False, default=str)
            # It may quote a result: nobody else may read it.
            replace_file(self._path, (text + "\n").encode(), mode=0o600)


class _Recording:
    """A run's progress, into its file and on to whoever shows it."""

    def __init__(self, file: RunFile, shown: Progress) -> None:
        self._file = file
        self._shown = shown
        self._done = 0
        self._total: int | None = None
        self._unit: Unit = "rows"

    def phase(self, name: str) -> None:
        self._done, self._total = 0, None
        self._file.began(name)
        self._shown.phase(name)

    def total(self, amount: int, unit: Unit = "rows") -> None:
        self._total, self._unit = amount, unit
        self._file.came_to(self._done, self._total, self._unit)
        self._shown.total(amount, unit)

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        self._file.came_to(self._done, self._total, self._unit)
        self._shown.advance(amount)

    def message(self, text: str) -> None:
        self._file.said(text)
        self._shown.message(text)

    def __getattr__(self, name: str) -> Any:
        """Whatever else the one who shows it can be told."""
        return getattr(self._shown, name)


def _spark() -> dict[str, Any] | None:
    """The Spark application of this process, once there is one; nothing is imported or started for the question."""
    try:
        # While another thread imports pyspark, a module stands there that has not all of its names yet.
        context = sys.modules["pyspark"].SparkContext._active_spark_context
        return {"application_id": context.applicationId, "master": context.master, "ui": context.uiWebUrl}
    except Exception:  # there is none, or it is being started or stopped
        return None


def _now() -> str:
    return datetime.now(UTC).isoformat()
