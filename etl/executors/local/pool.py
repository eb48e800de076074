"""The local executor's driver side: a server process, its workers, and the packs that they run.

A worker that ends in the middle of a pack is replaced, and the pack tried again, up to `attempts` times. A typed error
is not: it ends the read, and the other workers with it. Files of failed attempts stay behind, as those of Spark's tasks
do; no commit names them.
"""

from __future__ import annotations

import itertools
import json
import os
import pickle
from collections import deque
from collections.abc import Generator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from kseg.etl.errors import ConfigurationError
from kseg.etl.executors.local.server_process import ServerProcess, search_path
from kseg.etl.executors.port import Read
from kseg.etl.source.errors import WorkersLost
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tasks.error_transport import ErrorTransport
from kseg.etl.tasks.packs import PackOutput, PackPlan, TaskResult, results_of
from kseg.etl.tasks.range_results import CollectedResults, RangeResults, watched


class LocalExecutor:
    """Runs packs in worker processes of this host.

    workers: the number of packs that run at the same time. attempts: how often one pack is tried, if workers end.
    server: one that was started already; the executor ends it.
    """

    def __init__(self, workers: int | None = None, attempts: int = 4, server: ServerProcess | None = None) -> None:
        self._parallelism = workers or _cores()
        self._attempts = attempts
        self._ids = itertools.count()
        self._server = server

    @property
    def parallelism(self) -> int:
        return self._parallelism

    def start(self) -> None:
        """Start the server process, which loads what tasks need while the driver goes on."""
        if self._server is None:
            self._server = ServerProcess()

    def close(self) -> None:
        """End all processes. The executor may be used again."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def run(self, read: Read) -> tuple[TaskResult, ...]:
        plan = read.packs(self._parallelism)
        if not read.tasks:
            return ()
        collected = CollectedResults()
        results = RangeResults(read.tasks, collected, plan.transport)
        outputs: list[PackOutput] = []
        packs = closing(self._outputs(plan, read))
        with watched(results, read.on_progress), plan.transport.opening(), packs as done:
            for output in done:
                outputs.append(output)
                for text in output.range_results:
                    result = RangeResult.from_json(json.loads(text))
                    collected.add({(result.index, output.attempt): result})
        return results_of(read.tasks, outputs)

    def _outputs(self, plan: PackPlan, read: Read) -> Generator[PackOutput, None, None]:
        """The outputs of all packs, in the order in which packs end."""
        pickled = _pickled(plan, read)
        waiting = deque(_Attempt(pack) for pack in range(len(plan.packs)))
        working: dict[Connection, _Attempt] = {}
        idle: list[Connection] = []
        try:
            while waiting or working:
                while waiting and len(working) < self._parallelism:
                    worker = idle.pop() if idle else self._worker(plan.transport, pickled)
                    attempt = waiting.popleft()
                    working[worker] = attempt
                    with suppress(ConnectionError):  # its end is seen below
                        _order(worker, attempt, next(self._ids))
                for worker in map(_connection, wait(list(working))):
                    attempt = working[worker]
                    try:
                        output = _answer(worker)
                    except (EOFError, OSError):  # OSError: it ended in the middle of a message
                        del working[worker]
                        worker.close()
                        waiting.appendleft(attempt.again(plan, self._attempts))
                        continue
                    if output is not None:
                        attempt.outputs.append(output)
                        continue
                    idle.append(worker)
                    yield from working.pop(worker).outputs
        finally:
            for worker in [*idle, *working]:
                worker.close()  # a worker ends with its connection, in the middle of a pack as well

    def _worker(self, transport: ErrorTransport, pickled: bytes) -> Connection:
        self.start()
        assert self._server is not None
        try:
            worker = self._server.fork()
        except ConnectionError:  # the server itself was ended
            self.close()
            self.start()
            worker = self._server.fork()
        with suppress(ConnectionError):
            worker.send_bytes(json.dumps({"path": search_path(), "token": transport.token}).encode())
            worker.send_bytes(pickled)
        return worker


@dataclass
class _Attempt:
    """An attempt at a pack."""

    pack: int
    number: int = 0
    outputs: list[PackOutput] = field(default_factory=list)

    def again(self, plan: PackPlan, most: int) -> _Attempt:
        """The next attempt. Raises WorkersLost after the last one."""
        if self.number + 1 < most:
            return _Attempt(self.pack, self.number + 1)
        task = plan.packs[self.pack][0]
        raise WorkersLost(
            f"the worker process of {task} ended {most} times before the task did",
            remedy="run the same command again; if it happens again, look for the out-of-memory killer in the kernel's "
            "log, and run fewer tasks at once or give the container more memory",
            topic=task.topic,
            partition=task.partition,
            offset=task.start,
        )


def _pickled(plan: PackPlan, read: Read) -> bytes:
    try:
        return pickle.dumps((plan, read.write))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ConfigurationError.of(
            "transform",
            f"a step cannot be sent to a worker process: {error}",
            "give a function that is importable, as `module:function`",
        ) from error


def _order(worker: Connection, attempt: _Attempt, number: int) -> None:
    worker.send_bytes(json.dumps({"pack": attempt.pack, "id": number, "number": attempt.number}).encode())


def _answer(worker: Connection) -> PackOutput | None:
    """The next output of an attempt; None at its end.

    Raises WorkerFailed with the worker's error; EOFError or OSError if the worker ended.
    """
    answer: dict[str, Any] = json.loads(worker.recv_bytes())
    if "error" in answer:
        raise WorkerFailed(answer["error"])
    if "done" in answer:
        return None
    outputs = worker.recv_bytes() if answer["outputs"] else None
    return PackOutput(answer["tasks"], answer["attempt"], answer["range_results"], outputs)


def _connection(ready: object) -> Connection:
    assert isinstance(ready, Connection)
    return ready


def _cores() -> int:
    """The cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # macOS has none
    return len(affinity(0)) if affinity is not None else os.cpu_count() or 1


class WorkerFailed(Exception):
    """A worker's error as text; `ErrorTransport.opening` raises what it means."""
