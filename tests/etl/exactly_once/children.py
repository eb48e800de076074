"""Processes that run a job, to be killed or suspended at any step. What they run: `child.py`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHILD = Path(__file__).with_name("child.py")
ROOT = Path(__file__).parents[3]
ANSWER_SECONDS = 300


@dataclass
class Child:
    """A process that takes one command, or one after the other. `answer()` gives what came of it."""

    process: subprocess.Popen[str]
    log: Path
    answers: list[Any] = field(default_factory=list)

    def send(self, command: dict[str, Any], *, last: bool = True) -> Child:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        if last:
            self.process.stdin.close()
        return self

    def ready(self) -> None:
        """Wait until it has everything imported and has read its command."""
        assert self._read() == "ready"

    def answer(self) -> dict[str, Any]:
        answer = self._read()
        while answer == "ready":
            answer = self._read()
        assert isinstance(answer, dict)
        return answer

    def _read(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the child ended without an answer:\n{self.tail()}"
        return json.loads(line)

    def tail(self) -> str:
        return self.log.read_text()[-3000:]

    def killed(self) -> None:
        """Wait for its death by SIGKILL."""
        code = self.process.wait(ANSWER_SECONDS)
        assert code == -signal.SIGKILL, f"exit {code}, not killed: {self._rest()}"

    def suspended(self) -> None:
        """Wait until it is stopped."""
        # Blocks; a child that ends instead is seen too, and stays to be waited for.
        ended = os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        assert ended is not None
        assert ended.si_code == os.CLD_STOPPED, f"ended, not stopped: {self._rest()}"

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(60)
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    def _rest(self) -> str:
        assert self.process.stdout is not None
        return f"{self.process.stdout.read()}\n{self.tail()}"


class Children:
    """Starts child processes: on the tests' own JVM, or each on one of its own.

    On the tests' JVM a child takes a second instead of ten: it is a driver process of its own in everything but the
    JVM's memory. One is always kept ready.
    """

    def __init__(self, folder: Path, gateway: dict[str, str]) -> None:
        self.folder = folder
        self.gateway = gateway
        self.all: list[Child] = []
        self._spare: Child | None = None

    def start(self, *, own_jvm: bool = False) -> Child:
        if own_jvm:
            return self._start({})
        child, self._spare = self._spare or self._start(self.gateway), None
        return child

    def run(self, home: Any, *, own_jvm: bool = False, **command: Any) -> Child:
        """One command for one child. own_jvm: it starts a JVM that dies with it."""
        child = self.start(own_jvm=own_jvm).send({"job": str(home.file), **command})
        if not own_jvm:
            self._spare = self._start(self.gateway)  # imports while the other one works
        return child

    def _start(self, gateway: dict[str, str]) -> Child:
        log = self.folder / f"child-{len(self.all)}.log"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_GATEWAY")} | gateway
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        with log.open("w") as errors:
            process = subprocess.Popen(
                [sys.executable, str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=environment,
                cwd=self.folder,
            )
        self.all.append(Child(process, log))
        return self.all[-1]
