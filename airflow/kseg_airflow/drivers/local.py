"""A driver as a process of its own on this machine: `kseg …`, or spark-submit in client mode.

It outlives the process that started it: it is the leader of a session of its own, no child of the worker's, and writes
to files. A shell above it leaves the exit code in a file and removes what was handed over for this run alone, also when
no Airflow process is left to do so:

    sh (leads the session) ── kseg … --json --run-file run.json  >result.json  2>driver.log
                                └─ java, Python workers
    sh ── heartbeat                                             every ten seconds, as long as the shell above lives
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import psutil

from kseg_airflow.outcomes import Look, Outcome
from kseg_airflow.processes import find, here, session_members, stop_session, ticks_of
from kseg_airflow.run_folder import SECRETS, read_json

# A trapped signal reaches the driver, which is in the same group; the shell waits for it and goes on.
_SUPERVISOR: Final = r"""
trap : TERM INT HUP
exit_file=$1 result=$2 log=$3 secrets=$4
shift 4
"$@" >"$result" 2>>"$log" </dev/null
code=$?
[ -z "$secrets" ] || rm -f "$secrets"
echo "$code" >"$exit_file.new" && mv "$exit_file.new" "$exit_file"
"""
# The outer shell leaves at once, so that the inner one is no worker's child: none waits for it, or ends it.
_DETACH: Final = r'sh -c "$0" sh "$@" >/dev/null 2>&1 </dev/null & echo $!'
# No part of the driver's session, and without the lock that the driver holds: nobody has to stop it.
_HEART: Final = r"""
while kill -0 "$1" && [ ! -e "$2/exit" ]; do date +%s >"$2/heartbeat" || exit; sleep 10; done
"""

# Heartbeat and run file are written every ten seconds. Seen from another host, a driver of which neither has changed
# for so long is dead. How long is measured by the watching host's clock alone: those of two hosts differ.
_SILENT_FOR: Final = 120.0
_last_seen: dict[str, tuple[object, float]] = {}
_STOP: Final = "run.json.stop"
#: Run as a script: it stops a session for a process that has no time to do so.
REAPER: Final = Path(__file__).parents[1] / "reaper.py"
_REAPER_NEEDS: Final = 10.0  # seconds, to start and to see the last process go
_SECONDS_BETWEEN_LOOKS: Final = 0.1
# Between a driver's start and its first run file lies the start of Python.
_MOMENT: Final = 1.0


class DriverAlive(Exception):
    """A driver of this task instance lives, although it has no record (its starter was killed before it wrote)."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)
        self.folder = folder

    def __str__(self) -> str:
        return (
            "a driver of this task lives of which no record tells, since its starter was killed: its host and process "
            f"stand in {self.folder}/try-*/run.json. A later try continues when it has ended"
        )


@dataclass(frozen=True, slots=True)
class LocalDriver:
    """A driver process, and its folder.

    pid, began: the shell above it; began is its creation time in seconds since the epoch. session: the session's id.
    place: where the process id means something. ticks: began, in clock ticks since boot.
    """

    folder: str
    pid: int
    began: float
    session: int
    place: str
    kind: str = "process"
    ticks: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def log_file(self) -> Path:
        return Path(self.folder) / "driver.log"

    def run_file(self) -> dict[str, Any] | None:
        """The driver's last report about itself."""
        return read_json(Path(self.folder) / "run.json")

    def log_lines(self, seen: int = 0) -> tuple[list[str], int]:
        """The whole lines of its log from an offset on, and where the next ones begin."""
        return followed_lines(self.log_file, seen)

    def poll(self) -> Outcome | None:
        """Its outcome; None while it runs."""
        outcome = self._outcome()
        if outcome is not None or self.alive():
            return outcome
        time.sleep(_MOMENT)  # it may have ended between the two checks
        return self._outcome() or Outcome(None, self._document())

    def alive(self) -> bool:
        """Whether the driver runs. From another host: whether its files have changed of late."""
        if self.place == here():
            return find(self.pid, self.began, self.ticks) is not None
        now, sign = time.monotonic(), ((self.run_file() or {}).get("updated_at"), self._heartbeat())
        before, since = _last_seen.get(self.folder, (None, now))
        if before != sign:
            before, since = _last_seen[self.folder] = sign, now
        return now - since < _SILENT_FOR

    def stop(self, grace: float) -> bool:
        """Stop it and all that it has started. Returns whether it is gone.

        grace: seconds until force is used; on another host there is no force, and grace is how long is waited for it.
        """
        if self.place != here():
            return self._stop_from_afar(grace)
        driver = self._kseg_process()
        if driver is None and not self.alive():
            self._remove_secrets()
            return True  # by now the session's number could be another's
        gone = stop_session(self.session, driver, grace)
        self._remove_secrets()  # the shell that does it otherwise may have been stopped by force
        return gone

    def stop_detached(self, grace: float) -> bool:
        """The same by a process that outlives this one, which may be killed before the grace is over."""
        if self.place != here():
            return self._stop_from_afar(grace)
        driver = self._kseg_process()
        if driver is None and not self.alive():
            return self.stop(0)
        words = [str(self.session), *((str(driver.pid), str(driver.create_time())) if driver else ("0", "0"))]
        subprocess.run(
            [
                "/bin/sh",
                "-c",
                _DETACH,
                'exec "$@"',
                sys.executable,
                "-P",
                str(REAPER),
                *words,
                str(grace),
                self._secrets,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
        deadline = time.monotonic() + grace + _REAPER_NEEDS
        while session_members(self.session):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        self._remove_secrets()
        return True

    def look(self) -> Look:
        """Its outcome, or its phase and progress."""
        outcome = self.poll()
        return Look(outcome, None if outcome is not None else progress_line(self.run_file()))

    def is_owner(self, owner: str) -> bool:
        """Whether a name in the ledger is this driver's. owner: host:process id:random part."""
        told = self.run_file()
        return told is not None and owner.rpartition(":")[0] == f"{told.get('host')}:{told.get('pid')}"

    def proven_dead(self, owner: str) -> bool:
        """Whether the holder of a lease was this driver, and is no more."""
        if self.place != here() or self.alive() or not self.is_owner(owner):
            return False
        return self._kseg_process() is None

    def _stop_from_afar(self, grace: float) -> bool:
        """By a file that `kseg` checks for beside its run file, in a folder that both hosts see."""
        deadline = time.monotonic() + grace
        if self.poll() is None:
            (Path(self.folder) / _STOP).touch()
        while self.poll() is None:
            if time.monotonic() >= deadline:
                return False
            time.sleep(1)
        return True

    @property
    def _secrets(self) -> str:
        return str(Path(self.folder) / SECRETS)

    def _remove_secrets(self) -> None:
        Path(self._secrets).unlink(missing_ok=True)

    def _heartbeat(self) -> str | None:
        with contextlib.suppress(OSError):
            return (Path(self.folder) / "heartbeat").read_text()
        return None

    def _kseg_process(self) -> psutil.Process | None:
        told = self.run_file()
        return find(int(told["pid"]), float(told["pid_started"]), told.get("pid_ticks")) if told is not None else None

    def _outcome(self) -> Outcome | None:
        try:
            code = int((Path(self.folder) / "exit").read_text())
        except (OSError, ValueError):
            return None
        return Outcome(code, self._document())

    def _document(self) -> dict[str, Any] | None:
        printed = read_json(Path(self.folder) / "result.json")
        return printed if printed is not None else (self.run_file() or {}).get("result")


def start(
    command: Sequence[str],
    folder: Path,
    *,
    env: Mapping[str, str],
    secrets: Path | None = None,
    handed: Sequence[int] = (),
    cwd: str | None = None,
) -> LocalDriver:
    """Start a driver that outlives the processes of Airflow.

    folder: for this driver alone; its parent has the lock that the driver holds as long as it lives.
    secrets: a file that is removed when the driver ends. handed: descriptors that the driver gets, by the same numbers.
    env: the driver's whole environment.

    Raises:
        DriverAlive: the lock is held.
        OSError: no process could be started.
    """
    arguments = [str(folder / "exit"), str(folder / "result.json"), str(folder / "driver.log"), str(secrets or "")]
    with (folder.parent / "alive").open("w") as lock:
        _lock(lock, folder.parent)
        # Of one whose starter was killed before it wrote a record.
        for name in ("exit", "result.json", "run.json", "heartbeat", _STOP):
            (folder / name).unlink(missing_ok=True)
        try:
            detached = subprocess.run(
                ["/bin/sh", "-c", _DETACH, _SUPERVISOR, *arguments, *command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                env=dict(env),
                cwd=cwd,
                start_new_session=True,
                pass_fds=[lock.fileno(), *handed],
                check=True,
            )
        except BaseException:
            if secrets is not None:
                secrets.unlink(missing_ok=True)  # there is no driver whose end would remove them
            raise
    pid = int(detached.stdout)
    began, session = 0.0, pid
    with contextlib.suppress(psutil.Error, OSError):  # it may have ended already
        began, session = psutil.Process(pid).create_time(), os.getsid(pid)
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # the driver lives, and has to get its record
        subprocess.run(
            ["/bin/sh", "-c", _DETACH, _HEART, str(pid), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            check=False,
        )
    return LocalDriver(str(folder), pid, began, session, here(), ticks=ticks_of(pid))


def _lock(lock: TextIO, folder: Path) -> None:
    """Take the lock of a task's drivers. The last one's shell holds it a moment longer than it needs to leave the exit
    code. Raises DriverAlive."""
    deadline = time.monotonic() + _MOMENT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                raise DriverAlive(str(folder)) from None
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        else:
            return


def followed_lines(file: Path, offset: int) -> tuple[list[str], int]:
    """The whole lines of a log from an offset on, and where the next ones begin."""
    try:
        with file.open("rb") as stream:
            stream.seek(offset)
            data = stream.read()
    except OSError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return data[:end].decode("utf-8", "replace").splitlines(), offset + end


def progress_line(told: Mapping[str, Any] | None) -> str | None:
    """One line for a log out of a run file: the phase, and how far it is."""
    if not told or not told.get("phase"):
        return None
    line = str(told["phase"])
    progress = told.get("progress")
    if isinstance(progress, Mapping) and progress.get("done") is not None:
        line += f": {progress['done']}"
        if progress.get("total"):
            line += f" of {progress['total']} ({progress['done'] / progress['total']:.0%})"
        line += f" {progress.get('unit', '')}"
    return line.rstrip()
