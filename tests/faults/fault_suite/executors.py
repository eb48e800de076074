"""Runs on a standalone cluster whose executors, workers and Python processes are killed and suspended, with
speculation, and with records of 50 MB that tasks have too little memory for.

One driver stays, and takes one command after the other: an executor that dies is replaced while a run goes on.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psutil
from confluent_kafka import Producer

from children import Child
from fault_suite import drivers
from fault_suite.journal import digest
from fault_suite.schedule import Action, Lane
from fault_suite.world import World
from kseg.jobs.bench.standalone import StandaloneSpark

ALLOWED = drivers.ALLOWED | {"try again", "failed: OutOfMemoryError"}

LARGE = 50_000_000
"""Bytes of a large record."""

SPARE = 64 << 20
"""So many bytes a Python process may grow by while memory is short."""

FAULTS = (
    "an executor is killed",
    "an executor is suspended",
    "a Python worker is killed",
    "a machine is lost",
    "memory is short, and a record has 50 MB",
)

LANES = (
    Lane("cluster", {"ingest on the cluster": 1}, pause=0.5),
    Lane("others", {"backfill": 3, "repeat a backfill": 3, "maintain": 1}, interrupted=0.0, pause=2.0),
    Lane("machines", dict.fromkeys(FAULTS, 1), in_turn=True, pause=2.0),
)


def spark_of(cluster: StandaloneSpark) -> dict[str, Any]:
    """The job file's section: speculation begins soon, and an executor that is silent is given up soon."""
    conf = {
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.heartbeatInterval": "1s",
        "spark.network.timeout": "15s",
        "spark.network.timeoutInterval": "5s",
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.minTaskRuntime": "500ms",
        "spark.task.maxFailures": "8",
        "spark.deploy.maxExecutorRetries": "-1",
    }
    return {"master": cluster.url, "conf": conf}


class Executors:
    """What is done to a cluster's processes, and the driver on it."""

    def __init__(self, cluster: StandaloneSpark) -> None:
        self._cluster = cluster
        self._driver: Child | None = None

    @property
    def perform(self) -> dict[str, Any]:
        own = {
            "ingest on the cluster": self.ingest,
            "an executor is killed": self.kill_executor,
            "an executor is suspended": self.suspend_executor,
            "a Python worker is killed": self.kill_python,
            "a machine is lost": self.lose_machine,
            "memory is short, and a record has 50 MB": self.short_memory,
        }
        return {**drivers.PERFORM, **own}

    def ingest(self, world: World, action: Action) -> None:
        """A run on the cluster, by the driver that is there, or by a new one."""
        if self._driver is None:
            self._driver = world.children.start(own_jvm=True)
        command = {"job": str(world.job.file), "environment": world.job.environment, "take_over": action.take_over}
        self._driver.send(command, last=False)
        answer = self._driver.outcome()
        if answer is None:
            answer = {"exit": -1, "error": {"error": {"kind": "died by itself", "message": self._driver.tail()}}}
            self.close()
        world.note(action.what, answer)

    def close(self) -> None:
        """End the driver."""
        if self._driver is not None:
            self._driver.end()
            self._driver = None

    # --- faults

    def kill_executor(self, world: World, action: Action) -> None:
        self._kill(world, action, self._executors)

    def _kill(self, world: World, action: Action, there: Callable[[], list[psutil.Process]]) -> None:
        for one in self._some(world, action, there):
            with suppress(psutil.NoSuchProcess):
                one.kill()
                world.injected(action.what)

    def suspend_executor(self, world: World, action: Action) -> None:
        """Its tasks are started once more elsewhere; it goes on later, or has been given up."""
        for one in self._some(world, action, self._executors):
            with suppress(psutil.NoSuchProcess), _suspended([one, *one.children(recursive=True)]):
                world.over.wait(world.choose(action).choice([4, 8, 25]))
            world.injected(action.what)

    def kill_python(self, world: World, action: Action) -> None:
        """As the kernel does when memory is short."""
        self._kill(world, action, self._pythons)

    def lose_machine(self, world: World, action: Action) -> None:
        """A worker and its executors, and some seconds later a new one."""
        choice = world.choose(action)
        number = choice.randrange(1, 3)
        self._cluster.kill(f"worker-{number}")
        world.over.wait(choice.uniform(1, 5))
        self._cluster.start_worker(number)
        world.injected(action.what)

    def short_memory(self, world: World, action: Action) -> None:
        """Python processes may hardly grow while a record comes that needs more; then they may again."""
        choice = world.choose(action)
        limited = self._pythons() if self._some(world, action, self._pythons) else []
        for one in limited:
            with suppress(psutil.NoSuchProcess):
                one.rlimit(psutil.RLIMIT_AS, (one.memory_info().vms + SPARE, resource.RLIM_INFINITY))
        self._produce_large(world, action)
        world.over.wait(choice.uniform(4, 10))
        for one in limited:
            with suppress(psutil.NoSuchProcess):
                for each in [one, *one.children(recursive=True)]:
                    each.rlimit(psutil.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        if limited:
            world.injected(action.what)

    def _produce_large(self, world: World, action: Action) -> None:
        choice = world.choose(action)
        settings = {"bootstrap.servers": world.servers, "message.max.bytes": 2 * LARGE, "log_level": 0, "acks": "all"}
        topic, value = choice.choice(sorted(world.job.topics)), choice.randbytes(LARGE)

        def delivered(error: Any, message: Any) -> None:
            if error is None:
                at = (message.topic(), message.partition(), message.offset())
                world.journal.acknowledge({at: digest(b"large", value)})

        producer = Producer(settings)
        producer.produce(topic, key=b"large", value=value, partition=0, on_delivery=delivered)
        world.journal.doubt(producer.flush(60))

    # --- the cluster's processes

    def _executors(self) -> list[psutil.Process]:
        folder, found = str(self._cluster.directory), []
        for one in psutil.process_iter(["cmdline"]):
            with suppress(psutil.Error):
                backend = any("CoarseGrainedExecutorBackend" in word for word in one.info["cmdline"] or ())
                if backend and one.cwd().startswith(folder):
                    found.append(one)
        return sorted(found, key=lambda one: one.pid)

    def _pythons(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for executor in self._executors():
            with suppress(psutil.Error):
                found += [one for one in executor.children(recursive=True) if "python" in one.name()]
        return found

    def _some(self, world: World, action: Action, there: Callable[[], list[psutil.Process]]) -> list[psutil.Process]:
        """One of the processes, as soon as there is any; none where the end comes first."""
        while not (found := there()):
            if world.over.wait(0.2):
                return []
        return [world.choose(action).choice(found)]


@contextmanager
def _suspended(processes: list[psutil.Process]) -> Iterator[None]:
    for one in processes:
        with suppress(psutil.NoSuchProcess):
            one.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for one in processes:
            with suppress(psutil.NoSuchProcess):
                one.send_signal(signal.SIGCONT)
