"""Tasks through real Spark workers: rows, range results that count once, results of a fused write, typed errors."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kseg.client import ClientConfig
from kseg.client.errors import UnknownTopic
from kseg.etl.errors import ConfigurationError
from kseg.etl.executors.port import Read
from kseg.etl.executors.spark import SparkExecutor
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import (
    ArrowStepError,
    OffsetsLost,
    OutOfMemoryError,
    RangeResultsDisagree,
    RangeResultsIncomplete,
    WorkerError,
)
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.tasks import RangeTask, split
from kseg.etl.spark.dataframe import rows
from kseg.etl.tasks.error_transport import ErrorTransport
from kseg.etl.tasks.packs import TaskAttempt
from kseg.etl.tasks.range_results import RangeResults
from kseg.etl.telemetry.events import ReadProgress
from kseg.etl.transform.arrow import ArrowStep, Function
from kseg.etl.transform.transform import BatchSteps

pytestmark = [pytest.mark.broker, pytest.mark.spark]

COUNT = 300


def steps_of(*functions: Function) -> BatchSteps:
    return BatchSteps(tuple(ArrowStep(one, f"transform[{number}].arrow") for number, one in enumerate(functions)))


@pytest.fixture(scope="module")
def topic(kafka: Any, produce: Callable[..., None]) -> str:
    """Two partitions of 300 records; every third has no headers, every fifth no value."""
    name: str = kafka.topic(partitions=2, prefix="frames")
    records = [
        (p, f"k{n}".encode(), None if n % 5 == 0 else b"v" * n, None if n % 3 == 0 else [("h", b"1"), ("h", None)])
        for n in range(COUNT)
        for p in (0, 1)
    ]
    produce(name, records, **{"compression.type": "zstd"})
    return name


@pytest.fixture
def tasks(topic: str) -> tuple[RangeTask, ...]:
    return split([OffsetRange(topic, p, 0, COUNT) for p in (0, 1)], max_records=100)


def test_rows_are_the_records(spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...]) -> None:
    frame, range_results = rows(spark, tasks, client_config, DecodeOptions(addresses=True, provenance=True))
    found = frame.orderBy("partition", "offset").collect()
    assert [(row.partition, row.offset) for row in found] == [(p, n) for p in (0, 1) for n in range(COUNT)]
    for row in found:
        assert row.value == (None if row.offset % 5 == 0 else b"v" * row.offset)
        assert (row.headers is None) == (row.offset % 3 == 0)
        assert (row._kseg_topic, row._kseg_partition, row._kseg_offset) == (row.topic, row.partition, row.offset)
    told = range_results.resolve()
    assert [(o.index, o.data) for o in told] == [(task.index, 100) for task in tasks]
    assert all(o.accounted for o in told)
    now = range_results.progress()
    assert (now.tasks, now.tasks_done, now.offsets, now.rows) == (6, 6, 2 * COUNT, 2 * COUNT)
    assert now.bytes == sum(o.bytes for o in told)
    assert sorted(o.index for o in now.ended) == [0, 1, 2, 3, 4, 5]
    assert (range_results.progress().ended, range_results.progress().rows) == ((), 2 * COUNT), "reported once"


def test_a_task_tells_what_it_cost_and_not_what_the_one_before_did(
    spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    """Small tasks share a worker and its requests: each is told what was asked while it was read, and nothing twice."""
    before = time.time()
    results = SparkExecutor(spark.sparkContext).run(Read(tasks, client_config, DecodeOptions(), _drop))
    costs = [range_result.cost for result in results for range_result in result.range_results]
    assert len(costs) == len(tasks)
    for cost in costs:
        assert cost is not None
        assert before - 1 <= cost.began <= time.time()
        assert cost.seconds > 0
        assert cost.executor.startswith(f"{cost.host}/")
    assert sum(cost.seconds for cost in costs) < time.time() - before
    fetches = [line for cost in costs for line in cost.traffic if line.api == "Fetch"]
    assert 1 <= sum(line.requests for line in fetches) <= len(tasks)
    assert sum(line.responses for line in fetches) == sum(line.requests for line in fetches)
    assert not any(line.errors for line in fetches)
    assert sum(line.bytes_in for line in fetches) > 100 * len(tasks)


def _drop(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    return iter(())


def test_attempts_that_agree_count_once(spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...]) -> None:
    frame, range_results = rows(spark, tasks, client_config, DecodeOptions())
    assert frame.filter("offset >= 0").count() == 2 * COUNT
    assert frame.groupBy("partition").count().collect()
    assert sum(range_result.data for range_result in range_results.resolve()) == 2 * COUNT


def test_an_outcome_is_missing_until_its_rows_were_read(
    spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    frame, range_results = rows(spark, tasks, client_config, DecodeOptions())
    with pytest.raises(RangeResultsIncomplete) as caught:
        range_results.resolve()
    assert caught.value.retriable
    assert caught.value.address == {"topic": tasks[0].topic, "partition": tasks[0].partition, "offset": 0}
    assert len(frame.limit(5).collect()) == 5
    with pytest.raises(RangeResultsIncomplete):
        range_results.resolve()


def test_attempts_that_disagree_are_refused() -> None:
    task = RangeTask("orders", 1, 0, 10)
    one = RangeResult(0, "orders", 1, 0, 10, data=10, waiting=0.1)

    def told(other: RangeResult) -> RangeResults:
        return RangeResults([task], SimpleNamespace(value={(0, 1): one, (0, 2): other}), ErrorTransport())  # type: ignore[arg-type]

    assert told(replace(one, waiting=5.0)).resolve() == (one,)
    with pytest.raises(RangeResultsDisagree) as caught:
        told(replace(one, data=9, absent=1)).resolve()
    assert caught.value.retriable
    assert caught.value.address == {"topic": "orders", "partition": 1, "offset": 0}


def test_no_tasks_no_rows(spark: Any, client_config: ClientConfig) -> None:
    frame, range_results = rows(spark, (), client_config, DecodeOptions(provenance=True))
    assert frame.collect() == []
    assert "batchBaseOffset" in frame.columns
    assert range_results.resolve() == ()
    assert SparkExecutor(spark.sparkContext).run(Read((), client_config, DecodeOptions(), None)) == ()  # type: ignore[arg-type]


def test_arrow_steps_run_before_rows_reach_spark(
    spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    def lengths(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.select(["partition", "offset"]).append_column("length", pc.binary_length(batch.column("value")))

    def long_ones(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.greater_equal(batch.column("length"), 250))

    frame, range_results = rows(spark, tasks, client_config, DecodeOptions(), steps_of(lengths, long_ones))
    assert steps_of(lengths).output_schema(DecodeOptions().schema).names == frame.columns
    assert sorted(row.length for row in frame.collect()) == sorted([n for n in range(250, COUNT) if n % 5] * 2)
    told = range_results.resolve()
    assert sum(o.data for o in told) == 2 * COUNT
    assert sum(o.rows_out or 0 for o in told) == 80


def test_a_step_must_give_types_that_spark_has(spark: Any, client_config: ClientConfig) -> None:
    def odd(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column("odd", pa.array([None] * batch.num_rows, pa.month_day_nano_interval()))

    with pytest.raises(ConfigurationError, match="type that Spark does not have"):
        rows(spark, (), client_config, DecodeOptions(), steps_of(odd))


def test_errors_of_workers_arrive_typed(spark: Any, client_config: ClientConfig, topic: str) -> None:
    def breaks(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if not batch.num_rows else pa.RecordBatch.from_pylist([{"a": 1 // 0}])

    (task,) = split([OffsetRange(topic, 1, 5, 10)])
    frame, range_results = rows(spark, [task], client_config, DecodeOptions(), steps_of(breaks))
    with pytest.raises(ArrowStepError, match="ZeroDivisionError") as caught, range_results.typed_errors():
        frame.collect()
    record = {"topic": topic, "partition": 1, "offset": 5}
    assert dict(caught.value.address) | record | {"step": "transform[0].arrow"} == caught.value.address

    hasty = replace(client_config, default_api_timeout_ms=3000)
    frame, range_results = rows(spark, [RangeTask("no-such-topic", 0, 0, 5)], hasty, DecodeOptions())
    with pytest.raises(UnknownTopic), range_results.typed_errors():
        frame.collect()


# -- reading, transforming and writing in one task


def test_a_fused_write_gives_facts_and_outcomes(
    spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...], tmp_path: Path
) -> None:
    import pyarrow.parquet as pq

    folder = str(tmp_path)

    def write(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        import pyarrow.parquet as pq

        table = pa.Table.from_batches(batches, attempt.schema)
        name = f"{folder}/{attempt.number}-{attempt.attempt_id}.parquet"
        pq.write_table(table, name)
        for part in ("head", "tail"):
            yield pa.RecordBatch.from_pylist([{"file": name, "rows": table.num_rows, "part": part}])

    def some(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pc.less(batch.column("offset"), 150))

    seen: list[ReadProgress] = []
    results = SparkExecutor(spark.sparkContext).run(
        Read(tasks, client_config, DecodeOptions(), write, steps_of(some), on_progress=seen.append)
    )
    (result,) = results  # all of it is small
    assert result.tasks == tasks
    assert [range_result.index for range_result in result.range_results] == [task.index for task in tasks]
    assert sum(range_result.data for range_result in result.range_results) == 2 * COUNT
    assert sum(range_result.rows_out or 0 for range_result in result.range_results) == 300
    facts = [fact for batch in result.outputs for fact in batch.to_pylist()]
    assert [fact["part"] for fact in facts] == ["head", "tail"]
    assert facts[0]["rows"] == 300
    assert facts[0]["file"].endswith(f"/0-{result.attempt_id}.parquet")
    landed = pa.concat_tables(pq.read_table(path) for path in tmp_path.glob("*.parquet"))
    assert sorted(landed.column("offset").to_pylist()) == sorted(list(range(150)) * 2)
    assert seen[-1].tasks_done == seen[-1].tasks == 6
    assert seen[-1].rows == 2 * COUNT


def test_rows_of_two_tables_are_written_apart(
    spark: Any, kafka: Any, client_config: ClientConfig, produce: Callable[..., None]
) -> None:
    topics = sorted(kafka.topic(partitions=2, prefix="apart") for _ in range(3))  # tasks are in the order of names
    for number, name in enumerate(topics):
        produce(name, [(p, b"k", b"%d" % n, None) for n in range(10 + number) for p in (0, 1)])
    tasks = split([OffsetRange(name, p, 0, 10 + number) for number, name in enumerate(topics) for p in (0, 1)])

    def write(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        names = [topic for batch in batches for topic in batch.column("topic").to_pylist()]
        yield pa.RecordBatch.from_pylist([{"topics": sorted(set(names)), "rows": len(names)}])

    routes = dict(zip(topics, (0, 1, 0), strict=True))
    results = SparkExecutor(spark.sparkContext).run(Read(tasks, client_config, DecodeOptions(), write, routes=routes))
    written = [fact for result in results for batch in result.outputs for fact in batch.to_pylist()]
    assert sorted((fact["topics"], fact["rows"]) for fact in written) == sorted(
        [([topics[0], topics[2]], 44), ([topics[1]], 22)]
    )
    assert len({result.attempt_id for result in results}) == 1  # by one Spark task all the same
    frame, range_results = rows(spark, tasks, client_config, DecodeOptions(), routes=routes)
    by_place = frame.selectExpr("spark_partition_id() AS place", "topic").distinct().collect()
    assert len({row.place for row in by_place if row.topic != topics[1]}) == 2  # each neighbour is of the other table
    assert frame.count() == sum(range_result.data for range_result in range_results.resolve()) == 66


def test_a_writer_that_leaves_rows_behind_fails(
    spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...]
) -> None:
    def lazy(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        return iter(())

    with pytest.raises(WorkerError, match="has not been read to its end"):
        SparkExecutor(spark.sparkContext).run(Read(tasks[:1], client_config, DecodeOptions(), lazy))


def test_a_writer_without_memory(spark: Any, client_config: ClientConfig, tasks: tuple[RangeTask, ...]) -> None:
    """Its process may allocate 8 MB more, and it needs 64: the error names the ranges that were being written."""

    def write(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        list(batches)
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20), hard))
        try:
            yield pa.RecordBatch.from_pydict({"bytes": [bytes(64 << 20)]})
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))

    with pytest.raises(OutOfMemoryError) as caught:
        SparkExecutor(spark.sparkContext).run(Read(tasks[:1], client_config, DecodeOptions(), write))
    first = tasks[0]
    assert caught.value.address == {"topic": first.topic, "partition": first.partition, "offset": first.start}
    assert str(first) in caught.value.message


def test_errors_of_a_fused_read_arrive_typed(spark: Any, client_config: ClientConfig, topic: str) -> None:
    def write(batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        list(batches)
        return iter(())

    with pytest.raises(OffsetsLost) as caught:
        SparkExecutor(spark.sparkContext).run(
            Read([RangeTask(topic, 0, 1000, 1005)], client_config, DecodeOptions(), write)
        )
    assert (caught.value.first, caught.value.last, caught.value.reason) == (1000, 1005, "truncation")


def test_tasks_must_be_numbered(spark: Any, client_config: ClientConfig) -> None:
    with pytest.raises(ValueError, match="is number 0"):
        rows(spark, [RangeTask("t", 0, 0, 1, index=3)], client_config, DecodeOptions())


# -- retries need a session of their own: the tests' shared one fails at the first failure


def test_a_task_that_is_killed_and_retried_counts_once(kafka: Any, topic: str, tmp_path: Path) -> None:
    script = Path(__file__).with_name("retried_read.py")
    arguments = [kafka.bootstrap_servers, topic, str(COUNT), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, str(script), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert sorted(told["died"]) == ["fused-raise", "fused-sigkill", "rows-raise", "rows-sigkill"]
    assert told["rows"] == told["rows_counted"] == 2 * COUNT
    assert told["fused"] == told["fused_counted"] == 2 * COUNT
