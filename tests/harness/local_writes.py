"""What worker processes of the local executor do in tests: they import it by name."""

from __future__ import annotations

import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pyarrow as pa

from kseg.etl.tasks.packs import TaskAttempt

WORK_SECONDS = 0.3


def count(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    """Reads all rows, and returns their number and the attempt's."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"rows": [rows], "attempt": [attempt.attempt_number], "pid": [os.getpid()]})


@dataclass(frozen=True)
class DiesAtFirst:
    """Counts, after the first attempts at each pack have killed their process. marks: a folder for their marks."""

    marks: Path
    times: int

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        next(batches)
        mark = self.marks / f"{attempt.number}-{attempt.attempt_id}"
        if attempt.attempt_number < self.times:
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from count(batches, attempt)


@dataclass(frozen=True)
class Waits:
    """Writes its process id into a folder, and never ends by itself."""

    folder: Path

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        (self.folder / f".{os.getpid()}").write_text("")
        (self.folder / f".{os.getpid()}").rename(self.folder / f"{os.getpid()}")
        while True:
            time.sleep(3600)
        yield from batches


@dataclass(frozen=True)
class Raises:
    """Raises an error that is not ours, in one of the packs."""

    pack: int

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        if attempt.number == self.pack:
            raise ValueError("of a writer")
        yield from count(batches, attempt)


@dataclass(frozen=True)
class DiesInItsAnswer:
    """Counts. The first process is killed when it has sent half of what it returns. marks: a folder for its mark."""

    marks: Path

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        if attempt.attempt_number == 0:
            (self.marks / f"mark-{os.getpid()}").touch()
            Connection.send_bytes = _half  # type: ignore[assignment, method-assign]
        yield from count(batches, attempt)


def _half(connection: Connection, message: bytes) -> None:
    """Sends as `send_bytes` does, and dies in the middle of it."""
    framed = struct.pack("!i", len(message)) + message
    os.write(connection.fileno(), framed[: 4 + len(message) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Leaves:
    """Ends its process as command-line libraries do. marks: a folder for a mark of each process."""

    marks: Path

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        (self.marks / f"mark-{os.getpid()}").touch()
        sys.exit("of a library")


@dataclass(frozen=True)
class LeavesAChild:
    """Counts. The first process starts a process that outlives it, in the way given, and is killed. marks: a folder in
    which the process writes its id."""

    marks: Path
    way: str

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        if attempt.attempt_number == 0:
            pid = os.fork() if self.way == "fork" else _spawned()
            if pid == 0:
                time.sleep(3600)
            (self.marks / f"mark-{pid}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from count(batches, attempt)


def _spawned() -> int:
    words = [sys.executable, "-c", "import time; time.sleep(3600)"]
    return subprocess.Popen(words, close_fds=False, stdin=subprocess.DEVNULL).pid


def prints(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    """Counts, and prints as a user's functions may."""
    print("printed by a step")
    os.write(1, b"written by a library\n")
    yield from count(batches, attempt)


def works(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    """Counts, and uses WORK_SECONDS of processor time."""
    until = time.process_time() + WORK_SECONDS
    while time.process_time() < until:
        pass
    yield from count(batches, attempt)
