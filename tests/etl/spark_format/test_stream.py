"""`spark.readStream.format("kseg")` into Delta: every record once, whatever stops the query or happens to the log."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.spark_format.datasource import KsegDataSource
from kseg.jobs.broker import jars
from skips import full_scale_only

pytestmark = [pytest.mark.broker, pytest.mark.spark]

Produce = Callable[..., None]
FROM_THE_BEGINNING = {"startingOffsets": "earliest"}


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    if importlib.util.find_spec("pyspark_kseg") is None:
        spark.dataSource.register(KsegDataSource)
    return spark


def patiently(action: Callable[[], Any]) -> Any:
    """Spark gives the process of a Python source ten seconds to start, which a machine busy with others may exceed."""
    for _ in range(9):
        try:
            return action()
        except Exception as error:
            if "failed to connect back" not in str(error):
                raise
    return action()


class Query:
    """One query: its table, its checkpoint, and runs of it until nothing is left."""

    def __init__(self, session: Any, servers: str, folder: Path, **options: str) -> None:
        self.session, self.servers = session, servers
        self.table, self.checkpoint = folder / "table", folder / "checkpoint"
        self.options = {"kafka.isolation.level": "read_committed", **options}

    def stream(self, source: str = "kseg", **options: str) -> Any:
        reader = self.session.readStream.format(source).option("kafka.bootstrap.servers", self.servers)
        return reader.options(**self.options | options).load()

    def writer(self, frame: Any) -> Any:
        return frame.writeStream.option("checkpointLocation", str(self.checkpoint))

    def run(self, source: str = "kseg", **options: str) -> list[dict[str, Any]]:
        """With Trigger.AvailableNow, to its end; gives the micro-batches that read something."""
        writer = self.writer(self.stream(source, **options)).format("delta").trigger(availableNow=True)
        return patiently(lambda: self.wait_for(writer.start(str(self.table))))

    @contextmanager
    def running(self) -> Iterator[Any]:
        """A query that goes on by itself, once it has written down where it begins."""
        writer = self.writer(self.stream()).format("delta").trigger(processingTime="0 seconds")

        def start() -> Any:
            query = writer.start(str(self.table))
            query.processAllAvailable()
            return query

        query = patiently(start)
        try:
            yield query
        finally:
            query.stop()

    def wait_for(self, query: Any) -> list[dict[str, Any]]:
        try:
            assert query.awaitTermination(240)
        finally:
            query.stop()
        return [told for one in query.recentProgress if (told := json.loads(one.json))["numInputRows"]]

    def fail(self, at: int = 0, **options: str) -> str:
        """A run whose micro-batch of that number fails when it has been planned and its rows are computed; gives what
        was told."""

        def fail(rows: Any, batch: int) -> None:
            rows.count()
            if batch == at:
                raise ValueError("as if the driver had died")

        writer = self.writer(self.stream(**options)).foreachBatch(fail).trigger(availableNow=True)
        with pytest.raises(Exception, match=r".") as caught:
            patiently(lambda: self.wait_for(writer.start()))
        return str(caught.value)

    def refused(self, **options: str) -> str:
        with pytest.raises(Exception, match=r".") as caught:
            self.run(**options)
        return str(caught.value)

    def rows(self) -> list[tuple[int, int, bytes | None, bytes | None]]:
        """What the table holds, also what it holds twice: partition, offset, key, value."""
        found = self.session.read.format("delta").load(str(self.table)).collect()
        return sorted((r.partition, r.offset, r.key and bytes(r.key), r.value and bytes(r.value)) for r in found)

    def offsets(self) -> list[dict[str, Any]]:
        """What stands in the checkpoint, micro-batch by micro-batch."""
        folder = self.checkpoint / "offsets"
        numbers = sorted(int(file.name) for file in folder.iterdir() if file.name.isdigit())
        return [json.loads((folder / str(number)).read_text().splitlines()[-1]) for number in numbers]


@pytest.fixture
def query(session: Any, kafka: Any, tmp_path: Path) -> Callable[..., Query]:
    def query(topic: str, folder: str = "query", **options: str) -> Query:
        return Query(session, kafka.bootstrap_servers, tmp_path / folder, subscribe=topic, **options)

    return query


def some(count: int, partitions: int = 1, first: int = 0) -> list[tuple[int, bytes, bytes]]:
    return [(n % partitions, b"k%d" % n, b"v%d" % n) for n in range(first, first + count)]


def test_runs_with_transactions_in_between(query: Any, transactions: Any, read_back: Any) -> None:
    """Aborted ones leave no row, and one that is open holds back what stands behind it."""
    under = query(transactions.topic, **FROM_THE_BEGINNING)
    for seed, open_at_end in ((3, True), (4, False)):
        transactions.run(producers=3, steps=25, seed=seed, open_at_end=open_at_end)  # fences what was open before
        under.run()
        assert under.rows() == read_back(transactions.topic)
    assert {row[3] for row in under.rows()} == set(transactions.committed)


@full_scale_only
def test_a_new_query_starts_at_the_latest_offset_as_it_was_first_seen(
    query: Any, kafka: Any, produce: Produce, read_back: Any
) -> None:
    """Spark asks for the start of the first micro-batch again after a crash: it must not have moved on."""
    topic = kafka.topic(partitions=2)
    produce(topic, some(10, 2))
    under = query(topic)
    assert "as if the driver had died" in under.fail()
    produce(topic, some(10, 2, first=10))
    under.run()
    assert [row[:2] for row in under.rows()] == [(p, o) for p in (0, 1) for o in range(5, 10)]
    assert under.rows() == [row for row in read_back(topic, 2) if row[1] >= 5]


def test_a_micro_batch_is_repeated_with_the_same_offsets(query: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(10))
    under = query(topic, **FROM_THE_BEGINNING)
    assert "as if the driver had died" in under.fail(at=1)
    produce(topic, some(10, first=10))
    sizes = [batch["numInputRows"] for batch in under.run()]
    assert sizes == [10, 10]
    assert [row[1] for row in under.rows()] == list(range(20))
    # Landed, and not yet written down by Spark: Delta knows the batch by its number, and lands it once.
    last = max(int(file.name) for file in (under.checkpoint / "commits").iterdir() if file.name.isdigit())
    for file in (under.checkpoint / "commits").glob(f"*{last}*"):
        file.unlink()
    assert under.run() == []
    assert [row[1] for row in under.rows()] == list(range(20))


@full_scale_only
def test_tasks_and_columns_are_those_of_a_batch_read(query: Any, kafka: Any, produce: Produce, session: Any) -> None:
    topic = kafka.topic()
    produce(topic, [(0, b"k", b"v", [("h", b"1")])] * 30)
    under = query(topic, includeHeaders="true", maxRecordsPerPartition="10", **FROM_THE_BEGINNING)
    seen: list[int] = []
    writer = under.writer(under.stream()).foreachBatch(lambda rows, _: seen.append(rows.rdd.getNumPartitions()))
    patiently(lambda: under.wait_for(writer.trigger(availableNow=True).start()))
    assert seen == [0, 3]
    batch = session.read.format("kseg").option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    assert under.stream().schema == batch.option("subscribe", topic).option("includeHeaders", "true").load().schema


@full_scale_only
def test_a_processing_time_trigger_goes_on_by_itself(query: Any, kafka: Any, produce: Produce) -> None:
    topic = kafka.topic()
    produce(topic, some(5))
    under = query(topic, **FROM_THE_BEGINNING)
    with under.running() as running:
        for first in (5, 10):
            running.processAllAvailable()
            assert len(under.rows()) == first
            produce(topic, some(5, first=first))


# -- checkpoints of Spark's own Kafka source


@full_scale_only
def test_a_checkpoint_of_sparks_own_kafka_source_is_gone_on_with(
    query: Any, kafka: Any, produce: Produce, read_back: Any, session: Any
) -> None:
    name = "spark-kafka-4.2.0"
    folder = jars.ensure(name) if name in jars.locked_sets() else jars.directory(name)
    if not (found := sorted(folder.glob("*.jar"))):
        pytest.skip(f"the jars of Spark's Kafka source are not in {folder}")
    for jar in found:
        session.sql(f"ADD JAR '{jar}'")
    topic = kafka.topic(partitions=2)
    produce(topic, some(10, 2))
    under = query(topic, **FROM_THE_BEGINNING)
    under.run("kafka")
    # Its very first micro-batch is unfinished from here on, and where that starts only Spark's own source can tell …
    for file in (under.checkpoint / "commits").iterdir():
        file.unlink()
    produce(topic, some(10, 2, first=10))
    other = query(topic)
    other.table = other.table.with_name("another")
    assert "Spark's own Kafka source has begun a micro-batch" in other.refused()
    # … where it has to be read again: Delta knows by its number that it stands in the first table already.
    under.run("kseg")
    assert under.rows() == read_back(topic, 2)


# -- a driver that dies

CHILD = """
import sys
from pyspark.sql import SparkSession
from kseg.etl.spark_format.datasource import KsegDataSource
classes, servers, topic, table, checkpoint = sys.argv[1:]
spark = (SparkSession.builder.master("local[2]").config("spark.driver.extraClassPath", classes)
    .config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    .config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog").getOrCreate())
spark.dataSource.register(KsegDataSource)
rows = (spark.readStream.format("kseg").option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    .option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "7").load())
rows.writeStream.format("delta").option("checkpointLocation", checkpoint).trigger(availableNow=True).start(table)
print("started", flush=True)
spark.streams.awaitAnyTermination()
"""


@full_scale_only
def test_a_driver_that_is_killed_in_the_middle(
    query: Any, kafka: Any, produce: Produce, read_back: Any, scale: Any
) -> None:
    topic = kafka.topic(partitions=2)
    produce(topic, some(400, 2))
    under = query(topic, **FROM_THE_BEGINNING)
    for batches in scale((2,), (1, 3, 6, 9)):
        words = [jars.class_path(jars.DELTA), kafka.bootstrap_servers, topic, str(under.table), str(under.checkpoint)]
        child = subprocess.Popen([sys.executable, "-c", CHILD, *words], start_new_session=True)
        try:
            deadline = time.monotonic() + 300
            while not (under.checkpoint / "commits" / str(batches)).exists():
                assert child.poll() is None, "the query is over before anybody killed it"
                assert time.monotonic() < deadline
                time.sleep(0.01)
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    assert len(under.rows()) < 400
    under.run()
    assert under.rows() == read_back(topic, 2)
