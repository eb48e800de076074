"""The run folder of a task instance: records of its drivers, by which the next try finds them again.

    run_dir/<dag>/<run>/<task>[+map index]/
        record.json          the last driver: where it runs, its arguments, whether its result was read
        lock                 locked while a process reads and changes the record, or starts a driver
        alive                locked by the driver while it runs
        try-1/ try-2/ …      one for each driver: run.json, result.json, driver.log, exit, heartbeat; kafka.properties
                             while it runs; stopped, if a person or a timeout has stopped it; taken.json, a success that
                             a task has read; kseg-… with the id of its application on YARN; livy-mark

The folder's name has no try number, so that a retry, a cleared task and a second worker that considers the first one
dead use the same folder. Only the workers' user may read it. `retention.tidy` removes it later.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TextIO

from kseg_airflow.compat import conf

#: The connection's properties, which hold secrets.
SECRETS: Final = "kafka.properties"

_STOPPED: Final = "stopped"
_TAKEN: Final = "taken.json"
_LONGEST_NAME: Final = 100


def default_run_dir() -> str:
    """KSEG_RUN_DIR, or `[kseg] run_dir`, or `kseg` in AIRFLOW_HOME."""
    given = os.environ.get("KSEG_RUN_DIR") or conf.get("kseg", "run_dir", fallback="")
    if given:
        return str(given)
    home = os.environ.get("AIRFLOW_HOME") or str(Path.home() / "airflow")
    return str(Path(home).expanduser() / "kseg")


@dataclass(slots=True)
class DriverRecord:
    """The last driver of a task instance.

    handle: where it runs, for `handles.handle_of`. asked: hash of the command, without arguments that differ by try.
    taken: a task has read its result. stopped: a user or a timeout has requested its stop. taken_over: it was started
    with --take-over. follower: the try of the task that started it or attached to it last. clear: of that try
    (`compat.clear_of`), which no record of an earlier release has.
    """

    attempt: int
    handle: dict[str, Any]
    asked: str
    started_at: str
    taken: bool = False
    stopped: bool = False
    taken_over: bool = False
    follower: str = ""
    clear: str | None = None
    drivers: list[dict[str, Any]] = field(default_factory=list)


class RunFolder:
    """The folder of one task instance."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, run_dir: str, identity: Mapping[str, Any]) -> RunFolder:
        """The folder of a task instance. identity: the result of `compat.logical_identity`."""
        task = _name(identity["task_id"])
        if identity.get("map_index", -1) >= 0:
            task += f"+{identity['map_index']}"
        path = Path(run_dir).expanduser().absolute()
        return cls(path / _name(identity["dag_id"]) / _name(identity["run_id"]) / task)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder: only one process at a time reads the record and decides whether to start a driver."""
        while True:
            try:
                self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
                file = (self.path / "lock").open("w")
            except FileNotFoundError:  # the folder was tidied away at this moment
                continue
            with file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if self._is_lock(file):
                    yield
                    return

    def remove_if(self, over: Callable[[RunFolder], bool]) -> bool:
        """Remove the folder, unless a process uses it, a driver is running, or `over` returns False.

        Returns whether it was removed."""
        with contextlib.ExitStack() as held:
            try:
                for name in ("lock", "alive"):
                    fcntl.flock(held.enter_context((self.path / name).open("a")), fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            if not over(self):
                return False
            shutil.rmtree(self.path)
        return True

    def last_used(self) -> float:
        """The last change of the record or the drivers' folders, in seconds since 1970 (locks do not count)."""
        written = [*self.path.glob("record.json"), *self.path.glob("try-*"), *self.path.glob("try-*/*")]
        return max((path.stat().st_mtime for path in written), default=0.0)

    def _is_lock(self, file: TextIO) -> bool:
        """Whether the locked file is still the file at the lock's path."""
        try:
            return os.path.samestat((self.path / "lock").stat(), os.fstat(file.fileno()))
        except FileNotFoundError:
            return False

    def record(self) -> DriverRecord | None:
        """The last driver's record; None if no driver was started."""
        found = read_json(self.path / "record.json")
        if found is None:
            return None
        known = {name: found[name] for name in DriverRecord.__slots__ if name in found}
        record = DriverRecord(**known)
        record.stopped = record.stopped or (self.path / f"try-{record.attempt}" / _STOPPED).exists()
        return record

    def keep(self, record: DriverRecord) -> None:
        """Replace the record."""
        write_private(self.path / "record.json", json.dumps(asdict(record), indent=2) + "\n")

    def take(self, success: Mapping[str, Any] | None = None) -> None:
        """Record that the last driver's result was read. success: an outcome that a retry can deliver once more."""
        with self.locked():
            record = self.record()
            if record is None:
                return
            if success is not None:
                write_private(self.try_folder(record.attempt) / _TAKEN, json.dumps(success))
            self.keep(replace(record, taken=True))
            self.remove_secrets()

    def taken(self, record: DriverRecord) -> dict[str, Any] | None:
        """The success that a task has read; None if there is none."""
        return read_json(self.path / f"try-{record.attempt}" / _TAKEN) if record.taken else None

    def stop_by(self, follower: str, handle: Mapping[str, Any]) -> bool:
        """Mark the driver as stopped, unless another try has attached to it or has started another driver.

        Returns whether the driver must be stopped."""
        if not (self.path / "record.json").exists():
            return True
        with self.locked():
            record = self.record()
            if record is None or record.handle != handle or (follower and record.follower != follower):
                return False
            mark_stopped(handle, self)
        return True

    def remove_secrets(self) -> None:
        """Remove the connection's properties of all drivers; a driver that was killed with its shell leaves them."""
        for path in self.path.glob(f"try-*/{SECRETS}"):
            path.unlink(missing_ok=True)

    def try_folder(self, attempt: int) -> Path:
        """The folder of one driver; created if it is missing."""
        path = self.path / f"try-{attempt}"
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        return path


def mark_stopped(handle: Mapping[str, Any], folder: RunFolder) -> None:
    """Mark that a person or a timeout stops this driver, so that the next try does not attach to it.

    The mark is a separate file, because a signal handler calls this function and cannot wait for the record's lock.
    """
    record = folder.record()
    if record is not None and record.handle == handle:
        (folder.try_folder(record.attempt) / _STOPPED).touch()


def asked_hash(command: list[str]) -> str:
    """Hash of a driver's arguments, to distinguish a task with changed arguments from a repetition."""
    return hashlib.sha256(json.dumps(command).encode()).hexdigest()


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file; None if the file is missing or incomplete."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_private(path: Path, text: str) -> None:
    """Replace a file atomically; only its owner may read it (mkstemp creates it with mode 0600)."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _name(text: str) -> str:
    """A readable folder name; a hash distinguishes names that would be the same otherwise."""
    plain = re.sub(r"[^A-Za-z0-9_.=-]", "_", text)
    if plain == text and len(text) <= _LONGEST_NAME and text.strip("."):
        return text
    return f"{plain[:_LONGEST_NAME].strip('.') or '_'}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
