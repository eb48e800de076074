"""Processes that run a job, to be killed or suspended at any step. What they run: `child.py`; where they come from:
`nursery.py`."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, TextIO

NURSERY = Path(__file__).with_name("nursery.py")
HARNESS = Path(__file__).parent
ANSWER_SECONDS = 300


class ProcessStates:
    """What is told of processes: that they are born, have stopped, or ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._born: deque[int] = deque()
        self._status: dict[int, int] = {}

    def note(self, event: Mapping[str, int]) -> None:
        """One of nursery.py's events."""
        with self._changed:
            if "born" in event:
                self._born.append(event["born"])
                # Process numbers come again, after 32,768 others here: what is known is the end of another process.
                self._status.pop(event["born"], None)
            else:
                self._status[event["pid"]] = event["status"]
            self._changed.notify_all()

    def born(self) -> int:
        """The process of the oldest request that none was taken for."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._born, ANSWER_SECONDS), "nothing is born"
            return self._born.popleft()

    def wait(self, pid: int, *, end: bool = False, within: float | None = ANSWER_SECONDS) -> int:
        """The status with which a process has stopped, or ended; `end`: ended. within: seconds; None: any time."""
        with self._changed:
            there = self._changed.wait_for(lambda: self._ended(pid) if end else pid in self._status, within)
            assert there, f"process {pid} goes on and on"
            return self._status[pid]

    def ended(self, pid: int) -> bool:
        with self._changed:
            return self._ended(pid)

    def forget_stop(self, pid: int) -> None:
        """It is about to go on."""
        with self._changed:
            if not self._ended(pid):
                self._status.pop(pid, None)

    def _ended(self, pid: int) -> bool:
        return pid in self._status and not os.WIFSTOPPED(self._status[pid])


class Child:
    """A process that takes one command, or one after the other. `answer()` gives what came of it."""

    def __init__(self, states: ProcessStates, pid: int, stdin: IO[str], stdout: TextIO, log: Path) -> None:
        self._states = states
        self.pid = pid
        self._stdin, self._stdout, self._log = stdin, stdout, log

    def send(self, command: dict[str, Any], *, last: bool = True) -> Child:
        self._stdin.write(json.dumps(command) + "\n")
        self._stdin.flush()
        if last:
            self._stdin.close()
        return self

    def ready(self) -> None:
        """Wait until it has read its command."""
        assert self._read() == "ready"

    def answer(self) -> dict[str, Any]:
        answer = self._read()
        while answer == "ready":
            answer = self._read()
        assert isinstance(answer, dict)
        return answer

    def _read(self) -> Any:
        line = self._stdout.readline()
        assert line, f"the child ended without an answer:\n{self.tail()}"
        return json.loads(line)

    def tail(self) -> str:
        return self._log.read_text()[-3000:]

    def killed(self) -> None:
        """Wait for its death by SIGKILL."""
        status = self._states.wait(self.pid)
        assert os.WIFSIGNALED(status), f"status {status:#x}, not killed: {self._rest()}"
        assert os.WTERMSIG(status) == signal.SIGKILL

    def suspended(self) -> None:
        """Wait until it is stopped."""
        status = self._states.wait(self.pid)
        assert os.WIFSTOPPED(status), f"ended, not stopped: {self._rest()}"

    def outcome(self) -> dict[str, Any] | None:
        """Wait until it has ended; its answer, None where it died before it gave one."""
        for line in self._stdout:
            answer = json.loads(line)
            if answer != "ready":
                return dict(answer)
        return None

    @property
    def ended(self) -> bool:
        return self._states.ended(self.pid)

    def stopped(self) -> bool:
        """Wait until it is stopped or has ended: which of the two."""
        return os.WIFSTOPPED(self._states.wait(self.pid))

    def stop(self) -> bool:
        """Suspend it; False where it has ended before."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGSTOP)
        return self.stopped()

    def wake(self) -> None:
        self._states.forget_stop(self.pid)
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it without warning, and wait until it is gone."""
        if not self._states.ended(self.pid):
            with suppress(ProcessLookupError):  # it has ended since
                os.kill(self.pid, signal.SIGKILL)
        self._states.wait(self.pid, end=True)

    def end(self) -> None:
        self.kill()
        self._stdin.close()
        self._stdout.close()

    def _rest(self) -> str:
        """What it has said since, and logged. It may live, or what it has started: its end is not waited for."""
        os.set_blocking(self._stdout.fileno(), False)
        return f"{self._stdout.buffer.read()!r}\n{self.tail()}"


class Children:
    """Has child processes made: on the tests' own JVM, or each on one of its own.

    On the tests' JVM a child takes a second instead of ten: it is a driver process of its own in everything but the
    JVM's memory. environment: variables for all of them.
    """

    def __init__(self, folder: Path, gateway: dict[str, str], environment: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.gateway = gateway
        self.all: list[Child] = []
        self._starting = threading.Lock()  # births are announced in the order of their requests
        self._states = ProcessStates()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")} | dict(
            environment or {}
        )
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [environment.get("PYTHONPATH"), str(HARNESS)]))
        with theirs:
            self._nursery = subprocess.Popen(
                [sys.executable, str(NURSERY), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=folder,
                # The kernel sends SIGCONT to the stopped processes of a group whose shell ends: sleepers wake up.
                start_new_session=True,
            )
        threading.Thread(target=self._listen, name="nursery", daemon=True).start()

    def start(self, *, own_jvm: bool = False) -> Child:
        with self._starting:
            return self._start(own_jvm=own_jvm)

    def command(self, arguments: list[str], folder: str, environment: dict[str, str], files: list[int]) -> int:
        """`kseg ARGUMENTS` in a folder; files: its stdin, stdout and stderr. Its exit code, however long it takes."""
        with self._starting:
            pid = self._ask({"arguments": arguments, "folder": folder, "environment": environment}, files)
        return os.waitstatus_to_exitcode(self._states.wait(pid, end=True, within=None))

    def _start(self, *, own_jvm: bool) -> Child:
        log = self.folder / f"child-{len(self.all)}.log"
        command_out, command_in = os.pipe()
        answer_out, answer_in = os.pipe()
        with log.open("w") as errors:
            request = {"environment": {} if own_jvm else self.gateway}
            pid = self._ask(request, [command_out, answer_in, errors.fileno()])
        os.close(command_out)
        os.close(answer_in)
        self.all.append(Child(self._states, pid, os.fdopen(command_in, "w"), os.fdopen(answer_out), log))
        return self.all[-1]

    def _ask(self, request: dict[str, Any], files: list[int]) -> int:
        """The process that is born."""
        socket.send_fds(self._channel, [json.dumps(request).encode()], files)
        return self._states.born()

    def run(self, home: Any, *, own_jvm: bool = False, **command: Any) -> Child:
        """One command for one child. own_jvm: it starts a JVM that dies with it."""
        where = {"environment": home.environment, "python_path": home.python_path}
        return self.start(own_jvm=own_jvm).send({"job": str(home.file), **where, **command})

    def close(self) -> None:
        for child in self.all:
            child.end()
        self._channel.shutdown(socket.SHUT_RDWR)
        self._nursery.wait(60)
        self._channel.close()

    def _listen(self) -> None:
        while data := self._channel.recv(1 << 16):
            self._states.note(json.loads(data))
