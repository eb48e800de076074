"""Packs in worker processes of this host: all rows once, workers that die, errors, and the end of everything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import local_writes
from kseg.client.config import ClientConfig
from kseg.etl.errors import ConfigurationError
from kseg.etl.executors.local.pool import LocalExecutor
from kseg.etl.executors.port import Read
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OffsetsLost, WorkerError, WorkersLost
from kseg.etl.source.packing import SMALL
from kseg.etl.source.tasks import RangeTask, split
from kseg.etl.tasks.packs import TaskAttempt, TaskResult
from kseg.etl.telemetry.events import ReadProgress
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.transform import BatchSteps

pytestmark = pytest.mark.broker

COUNT = SMALL + 904
PATIENCE = 60.0


@pytest.fixture(scope="module")
def topic(kafka: Any, produce: Callable[..., None]) -> str:
    """Three partitions, each large enough for a pack of its own."""
    name: str = kafka.topic(partitions=3, prefix="local")
    produce(name, [(p, None, b"v" * 10) for p in range(3) for _ in range(COUNT)], **{"compression.type": "lz4"})
    return name


@pytest.fixture(scope="module")
def tasks(topic: str) -> tuple[RangeTask, ...]:
    return split([OffsetRange(topic, p, 0, COUNT) for p in range(3)])


@pytest.fixture
def executor() -> Iterator[LocalExecutor]:
    made = LocalExecutor(workers=2)
    yield made
    made.close()


def facts(results: tuple[TaskResult, ...]) -> list[dict[str, int]]:
    return [row for result in results for batch in result.outputs for row in batch.to_pylist()]


def test_each_pack_is_read_once(
    executor: LocalExecutor, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    seen: list[ReadProgress] = []
    read = Read(tasks, client_config, DecodeOptions(), local_writes.count, on_progress=seen.append)
    for _ in range(2):  # a read after another one has new workers of the same server
        results = executor.run(read)
        assert sorted(task.index for result in results for task in result.tasks) == [0, 1, 2]
        assert sum(r.data for result in results for r in result.range_results) == 3 * COUNT
        assert [fact["rows"] for fact in facts(results)] == [COUNT] * 3
        assert (seen[-1].tasks_done, seen[-1].rows) == (3, 3 * COUNT)
    assert os.getpid() not in {fact["pid"] for fact in facts(results)}


def test_no_tasks_need_no_process(executor: LocalExecutor, client_config: ClientConfig) -> None:
    assert executor.run(Read((), client_config, DecodeOptions(), local_writes.count)) == ()
    assert children_of(os.getpid(), "executors.local.server") == []


def test_a_worker_that_dies_is_replaced(
    executor: LocalExecutor, client_config: ClientConfig, tasks: tuple[RangeTask, ...], tmp_path: Path
) -> None:
    write = local_writes.DiesAtFirst(tmp_path, times=2)
    results = executor.run(Read(tasks, client_config, DecodeOptions(), write))
    assert [fact["attempt"] for fact in facts(results)] == [2, 2, 2]
    assert sum(r.data for result in results for r in result.range_results) == 3 * COUNT
    assert len(list(tmp_path.iterdir())) == 6, "two attempts of each pack, and none twice"
    assert [r.cost.attempt for result in results for r in result.range_results if r.cost] == [2, 2, 2]


def test_workers_that_always_die_end_the_read_with_an_address(
    client_config: ClientConfig, tasks: tuple[RangeTask, ...], tmp_path: Path
) -> None:
    executor = LocalExecutor(workers=1, attempts=2)
    with pytest.raises(WorkersLost, match="ended 2 times") as caught:
        executor.run(Read(tasks, client_config, DecodeOptions(), local_writes.DiesAtFirst(tmp_path, times=99)))
    executor.close()
    assert caught.value.retriable
    assert caught.value.address == {"topic": tasks[0].topic, "partition": 0, "offset": 0}
    assert len(list(tmp_path.iterdir())) == 2


def test_a_server_that_dies_is_replaced(
    executor: LocalExecutor, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    executor.start()
    for server in children_of(os.getpid(), "executors.local.server"):
        server.kill()
        server.wait(PATIENCE)
    results = executor.run(Read(tasks, client_config, DecodeOptions(), local_writes.count))
    assert [fact["rows"] for fact in facts(results)] == [COUNT] * 3


def test_typed_errors_arrive_as_they_are_and_are_not_tried_again(
    executor: LocalExecutor, client_config: ClientConfig, topic: str
) -> None:
    lost = [RangeTask(topic, 0, COUNT + 1000, COUNT + 1005)]
    with pytest.raises(OffsetsLost) as caught:
        executor.run(Read(lost, client_config, DecodeOptions(), local_writes.count))
    assert (caught.value.first, caught.value.last) == (COUNT + 1000, COUNT + 1005)
    assert "In the worker" in caught.value.__notes__[0]


def test_an_error_ends_the_workers_of_other_packs(
    executor: LocalExecutor, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    with pytest.raises(WorkerError, match="of a writer"):
        executor.run(Read(tasks, client_config, DecodeOptions(), local_writes.Raises(pack=1)))
    until(lambda: not workers_of(os.getpid()))


def test_a_step_that_no_other_process_can_import_is_a_fault_of_the_configuration(
    executor: LocalExecutor, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    steps = BatchSteps((ArrowStep(lambda batch: batch, "transform[0].arrow"),))
    with pytest.raises(ConfigurationError, match="cannot be sent to a worker process"):
        executor.run(Read(tasks, client_config, DecodeOptions(), local_writes.count, steps))


def _of_this_module(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    yield from batches


def test_what_a_worker_cannot_import_is_an_error_that_says_so(
    executor: LocalExecutor, client_config: ClientConfig, tasks: tuple[RangeTask, ...], monkeypatch: Any
) -> None:
    module = type(sys)("nowhere_to_be_found")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(_of_this_module, "__module__", module.__name__)
    monkeypatch.setattr(module, "_of_this_module", _of_this_module, raising=False)
    with pytest.raises(WorkerError, match="No module named 'nowhere_to_be_found'"):
        executor.run(Read(tasks, client_config, DecodeOptions(), _of_this_module))


DRIVER = """
import sys
from pathlib import Path
import local_writes
from kseg.client.config import ClientConfig
from kseg.etl.executors.local.pool import LocalExecutor
from kseg.etl.executors.port import Read
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.tasks import split
servers, topic, count, folder = sys.argv[1:]
config = ClientConfig.from_properties({"bootstrap.servers": servers}, client_id="kseg-test")
tasks = split([OffsetRange(topic, p, 0, int(count)) for p in range(3)])
LocalExecutor(workers=2).run(Read(tasks, config, DecodeOptions(), local_writes.Waits(Path(folder))))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_processes_end_with_the_driver(
    number: signal.Signals, client_config: ClientConfig, topic: str, tmp_path: Path
) -> None:
    (host, port), *_ = client_config.bootstrap_servers
    words = [sys.executable, "-c", DRIVER, f"{host}:{port}", topic, str(COUNT), str(tmp_path)]
    harness = Path(local_writes.__file__).parent
    with subprocess.Popen(
        words, env=os.environ | {"PYTHONPATH": str(harness)}, stderr=subprocess.DEVNULL, start_new_session=True
    ) as driver:
        until(lambda: len([path for path in tmp_path.iterdir() if path.name.isdigit()]) == 2)
        below = psutil.Process(driver.pid).children(recursive=True)
        assert len(below) == 3, "a server and two workers"
        driver.send_signal(number)
        driver.wait(PATIENCE)
    _, alive = psutil.wait_procs(below, timeout=PATIENCE)
    assert alive == []


def children_of(pid: int, words: str) -> list[psutil.Process]:
    found = psutil.Process(pid).children()
    return [child for child in found if any(words in word for word in child.cmdline())]


def workers_of(pid: int) -> list[psutil.Process]:
    return [worker for server in children_of(pid, "executors.local.server") for worker in server.children()]


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.05)
