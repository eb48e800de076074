"""A server process that does not outlive this one, however this one ends.

Every child has a watcher, a shell that waits for the end of a pipe which only this process holds. When this process
goes, killed or not, the pipe ends and the watcher stops the child and removes what is to be removed.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kseg.jobs.broker.errors import StartFailed

_POLL_SECONDS = 0.05

#: A Popen that is garbage while its process runs gives a ResourceWarning; these run on purpose.
_LEFT_RUNNING: list[subprocess.Popen[bytes]] = []

# Reads one line or the pipe's end. Only the end, its parent's death, makes it stop the child ($1), and remove a
# temporary directory of the child's own ($2) and, when that was the last one there, the directory around it.
_WATCHER = """
read -r line && exit
exec 2>/dev/null
kill -TERM "$1"
for second in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do kill -0 "$1" && sleep 1; done
kill -KILL "$1"
[ -z "$2" ] || { rm -rf "$2"; rmdir "${2%/*}"; }
"""


class Child:
    """A process in a session of its own: Ctrl-C in the terminal reaches this process, which then ends it in order."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        log_file: Path,
        directory: Path,
        remove: bool,
        env: Mapping[str, str] | None = None,
    ) -> None:
        """Start it in `directory`, which its watcher removes if `remove`; what it prints is added to `log_file`.

        env: its whole environment; None hands on this process's own.
        """
        self.log_file = log_file
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=directory,
                env=dict(env) if env is not None else None,
                start_new_session=True,
            )
        self._watcher: subprocess.Popen[bytes] | None = subprocess.Popen(
            ["/bin/sh", "-c", _WATCHER, "sh", str(self._process.pid), str(directory) if remove else ""],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def signal(self, how: signal.Signals) -> None:
        """Ask it to end, without waiting."""
        if self.running:
            self._process.send_signal(how)

    def end(self, within: float) -> None:
        """Wait for its end after `signal`, and end it by force after so many seconds."""
        try:
            self._process.wait(max(0.0, within))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._dismiss_watcher()

    def leave_running(self) -> None:
        """Let the process outlive this one."""
        self._dismiss_watcher()
        _LEFT_RUNNING.append(self._process)

    def _dismiss_watcher(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is None or watcher.stdin is None:
            return
        try:
            watcher.stdin.write(b"done\n")
            watcher.stdin.close()
        except BrokenPipeError:
            pass
        watcher.wait()


def await_ready(children: Mapping[str, Child], ready: Callable[[], bool], *, within: float) -> None:
    """Wait until `ready` says that they are. children: by what a person calls them; within: seconds.

    Raises:
        StartFailed: one of them ended, or it took too long; with the last lines of the logs.
    """
    deadline = time.monotonic() + within
    while True:
        for name, child in children.items():  # first: another program may answer on a port
            if not child.running:
                raise StartFailed(f"{name} ended during its start:\n{tail(child.log_file)}")
        if ready():
            return
        if time.monotonic() > deadline:
            logs = "\n".join(tail(child.log_file) for child in children.values())
            raise StartFailed(f"{', '.join(children)} did not answer within {within:.0f} s:\n{logs}")
        time.sleep(_POLL_SECONDS)


def run_logged(command: Sequence[str], log_file: Path, what: str) -> None:
    """Run what comes before a start; what it prints is added to the log. Raises StartFailed, which says that `what`."""
    with log_file.open("ab") as log:
        completed = subprocess.run(
            list(command), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, timeout=120, check=False
        )
    if completed.returncode != 0:
        raise StartFailed(f"{what}:\n{tail(log_file)}")


def end_all(children: Sequence[Child], how: signal.Signals, within: float) -> None:
    """Ask all to end at once, then wait for each; by force after `within` seconds for all together."""
    for child in children:
        child.signal(how)
    deadline = time.monotonic() + within
    for child in children:
        child.end(deadline - time.monotonic())


def tail(log: Path, lines: int = 25) -> str:
    """The last lines of a log, and those before them that name the cause."""
    text = log.read_text(errors="replace").splitlines() if log.exists() else []
    causes = [line for line in text[:-lines] if " ERROR " in line or "Exception" in line][-5:]
    return "\n".join([*causes, *text[-lines:], f"(whole log: {log})"])
