"""``--run-file FILE``: what a run is doing, as a JSON file that another process can follow.

    {"version": 1, "command": ["kseg", "ingest", "orders.yaml"], "pid": 4711, "pid_started": 1767225600.25,
     "pid_ticks": 8734521, "host": "worker-1", "started_at": "2026-01-01T00:00:00+00:00",
     "updated_at": "2026-01-01T00:00:09+00:00", "state": "running", "phase": "land",
     "progress": {"done": 10, "total": 40, "unit": "tasks"}, "messages": ["the last twenty"],
     "spark": {"application_id": "…", "master": "…", "ui": null}, "exit_code": null, "result": null}

The file is replaced as a whole: at the start, with each phase, at most once a second in between, every ten seconds
as a heartbeat, and at the end, where `state` is done or failed and `result` is the document that `--json` prints, or
that of the error. A write that fails after the first one, as on a full disk, is left out. Secrets are masked, also
the token of `--remote`. A process id may have been reused by another program, so the file holds `pid_started` too,
and, where the system has /proc, `pid_ticks`: clock ticks since the boot, which do not change when the clock is set.

From another host, where no SIGTERM can be sent, a process is stopped with a file `FILE.stop` beside the run file: at
its next heartbeat the process removes it, and ends as by a SIGTERM.
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

from kseg.etl.ledger.holder_process import start_ticks
from kseg.etl.telemetry.progress import Progress, Unit
from kseg.jobs.output.files import replace_file
from kseg.jobs.output.redaction import REDACTOR

VERSION: Final = 1
MESSAGES_KEPT: Final = 20
SECONDS_BETWEEN_WRITES: Final = 1.0
SECONDS_BETWEEN_HEARTBEATS: Final = 10.0


class RunFile:
    """One command's run file: a context manager around the work. `recording` makes the listener that writes."""

    def __init__(self, path: Path) -> None:
        from kseg.etl.config.remote import without_tokens  # it loads pydantic, which a command without a file may not

        self._path = path.absolute()
        self._stop = self._path.with_name(f"{self._path.name}.stop")
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._written = 0.0
        self._messages: deque[str] = deque(maxlen=MESSAGES_KEPT)
        self._document: dict[str, Any] = {
            "version": VERSION,
            "command": ["kseg", *map(without_tokens, sys.argv[1:])],
            "pid": os.getpid(),
            "pid_started": _started(),
            "pid_ticks": start_ticks(os.getpid()),
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
        self._writer = threading.Thread(target=self._write_heartbeats, name="kseg-run-file", daemon=True)

    def __enter__(self) -> RunFile:
        self._write()
        self._writer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._writer.join()
        with suppress(OSError):
            if self._document["state"] == "running":  # `ended` was not called: the process exits
                self.ended(1, None)
            self._stop.unlink(missing_ok=True)  # too late for this run, and not for the next one

    def recording(self, listener: Progress) -> Progress:
        """A listener that writes a run's progress to the file, and passes everything on to another one."""
        return _Recording(self, listener)

    def ended(self, exit_code: int, result: Mapping[str, Any] | None) -> None:
        """The run is over. result: the document of `--json`."""
        state = "done" if exit_code == 0 else "failed"
        self._change(at_once=True, state=state, exit_code=exit_code, result=result)

    def set_phase(self, phase: str) -> None:
        self._change(at_once=True, phase=phase, progress=None)

    def set_progress(self, done: int, total: int | None, unit: Unit) -> None:
        self._change(progress={"done": done, "total": total, "unit": unit})

    def add_message(self, text: str) -> None:
        self._messages.append(text)
        self._change(messages=list(self._messages))

    def _change(self, *, at_once: bool = False, **values: Any) -> None:
        self._document.update(values)
        if at_once or time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES:
            with suppress(OSError):  # a full disk: it stays as it was, and what it tells of goes on
                self._write()

    def _write_heartbeats(self) -> None:
        while not self._ended.wait(SECONDS_BETWEEN_HEARTBEATS):
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
            shown = REDACTOR.clean(self._document | {"updated_at": _now()})
            text = json.dumps(shown, ensure_ascii=False, default=str)
            # It may quote a result: nobody else may read it.
            replace_file(self._path, (text + "\n").encode(), mode=0o600)


class _Recording:
    """A run's progress, written to its file and passed on to another listener."""

    def __init__(self, file: RunFile, listener: Progress) -> None:
        self._file = file
        self._listener = listener
        self._done = 0
        self._total: int | None = None
        self._unit: Unit = "rows"

    def phase(self, name: str) -> None:
        self._done, self._total = 0, None
        self._file.set_phase(name)
        self._listener.phase(name)

    def total(self, amount: int, unit: Unit = "rows") -> None:
        self._total, self._unit = amount, unit
        self._file.set_progress(self._done, self._total, self._unit)
        self._listener.total(amount, unit)

    def advance(self, amount: int = 1) -> None:
        self._done += amount
        self._file.set_progress(self._done, self._total, self._unit)
        self._listener.advance(amount)

    def message(self, text: str) -> None:
        self._file.add_message(text)
        self._listener.message(text)

    def __getattr__(self, name: str) -> Any:
        """All other methods are the other listener's."""
        return getattr(self._listener, name)


def _spark() -> dict[str, Any] | None:
    """The Spark application of this process, once there is one; nothing is imported or started for it."""
    try:
        # While another thread imports pyspark, the module is there without all of its names.
        context = sys.modules["pyspark"].SparkContext._active_spark_context
        return {"application_id": context.applicationId, "master": context.master, "ui": context.uiWebUrl}
    except Exception:  # there is none, or it is being started or stopped
        return None


def _started() -> float:
    """The start time of this process, in seconds since 1970."""
    import psutil  # for `--run-file` alone: it takes as long as the other imports of this module together

    return psutil.Process().create_time()


def _now() -> str:
    return datetime.now(UTC).isoformat()
