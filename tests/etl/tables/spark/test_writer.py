"""Commits through Spark's own writer, to a table with liquid clustering, which delta-rs cannot write."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Refused, RetriableFailure
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.rows.names import OWN_ADDRESS
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.removal import OfAddresses
from kseg.etl.tables.spark.rows import project
from kseg.etl.tables.spark.writer import SparkTarget
from kseg.etl.tables.spark_session import reaching, setting
from kseg.etl.tables.values import FoundCommit, NewCommit, RunCommit
from row_addresses import add_address

APP = "kseg/ledger/job"


@pytest.fixture
def target(spark, tmp_path):
    return SparkTarget(lambda: spark, path=str(tmp_path / "clustered"), single_driver=True)


def frame(spark, batch: pa.RecordBatch, run_id: str):
    return project(spark.createDataFrame(pa.Table.from_batches([batch])), sink_schema(batch.schema), run_id)


def land(spark, target, batch, run_id, number, app=APP, facts=None, **how):
    rows = spark.createDataFrame(pa.Table.from_batches([batch]))
    return target.land(rows, sink_schema(batch.schema), RunCommit(run_id, app, number, facts or {}), **how)


def rows_of(target) -> dict[int, str]:
    found = target._spark.table(target._sql_name).select("offset", "_kseg_run").collect()
    assert len({r.offset for r in found}) == len(found)
    return {r.offset: r._kseg_run for r in found}


def ensure(spark, target, batch):
    rows = spark.createDataFrame(pa.Table.from_batches([batch]))
    return target.ensure(rows, sink_schema(batch.schema), cluster_by=["offset"])


@pytest.mark.parametrize("by", ["nope", "value"])
def test_a_new_table_that_cannot_be_clustered_names_the_column(spark, target, rows, by):
    batch = rows(0, 1)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    with pytest.raises(ConfigurationError) as caught:
        target.ensure(frame, sink_schema(batch.schema), cluster_by=["offset", by])
    assert [fault.path for fault in caught.value.faults] == ["sink.cluster_by[1]"]
    assert not target.exists()


def test_a_new_table_is_clustered_by_the_rows_own_spelling(spark, target, rows):
    batch = rows(0, 1)
    frame = spark.createDataFrame(pa.Table.from_batches([batch]))
    target.ensure(frame, sink_schema(batch.schema), cluster_by=["OFFSET"])
    assert target._detail()["clusteringColumns"] == ["offset"]


def test_a_run_lands_once_is_found_again_and_is_replaced_and_removed(spark, target, rows):
    assert target.state() is None
    made = ensure(spark, target, rows(0, 1))
    assert made == ensure(spark, target, rows(0, 1))
    assert (made.version, made.rows) == (0, 0)
    assert "table feature clustering" in target.access().spark_reasons()

    first = land(spark, target, rows(0, 10), "run-1", 1, expected=made)
    assert isinstance(first, NewCommit)
    assert (first.commit.version, first.commit.rows, first.commit.after.rows) == (1, 10, 10)
    again = land(spark, target, rows(0, 10), "run-1", 1, expected=made)
    assert isinstance(again, FoundCommit)
    assert (again.commit.version, again.commit.rows, again.commit.found) == (1, 10, True)

    empty = land(spark, target, rows(0, 0), "run-2", 2)
    assert (empty.commit.version, empty.commit.rows) == (2, 0)
    with pytest.raises(Refused) as caught:
        land(spark, target, rows(0, 10), "run-1", 1)
    assert caught.value.code == "ledger-older-than-table"

    removal = OfAddresses(OWN_ADDRESS, {TopicPartition("orders", 0): OffsetSet.of([(3, 6)])})
    replacement = {"app": f"{APP}/backfill", "remove": removal}
    replaced = land(spark, target, rows(3, 6), "backfill", 1, facts={"kept": "what this attempt kept"}, **replacement)
    assert isinstance(replaced, NewCommit)
    found = land(spark, target, rows(3, 6), "backfill", 1, facts={"kept": "what a later one kept"}, **replacement)
    assert isinstance(found, FoundCommit)
    assert (replaced.commit.kept, found.commit.kept) == ("what this attempt kept",) * 2
    assert (replaced.commit.rows, replaced.commit.removed, replaced.commit.after.rows) == (3, 3, 10)
    assert rows_of(target) == {n: "backfill" if 3 <= n < 6 else "run-1" for n in range(10)}
    assert (access := target.access()).incidents_since(first.commit.after, access.state()) == ()

    gone = target.remove_run(RunCommit("run-1", APP, 1))
    assert (gone.removed, gone.after.rows) == (7, 3)
    assert target.remove_run(RunCommit("run-1", APP, 1)).found
    assert target.transaction_version(APP) == 2

    fenced = target.remove_run(RunCommit("run-3", APP, 3))
    assert fenced.removed == 0
    assert target.transaction_version(APP) == 3
    assert isinstance(land(spark, target, rows(20, 30), "run-3", 3), FoundCommit)
    assert set(rows_of(target)) == {3, 4, 5}


def test_an_append_only_table_is_asked_for_rows_alone_that_are_there(spark, target, rows):
    ensure(spark, target, rows(0, 1))
    land(spark, target, rows(0, 10), "run-1", 1)
    target.sql("ALTER TABLE {table} SET TBLPROPERTIES ('delta.appendOnly' = 'true')")
    assert target.remove_run(RunCommit("run-2", APP, 2)).removed == 0
    assert target.remove_run(RunCommit("run-2", APP, 2)).found
    with pytest.raises(Refused) as caught:
        target.remove_run(RunCommit("run-1", APP, 1))
    assert caught.value.code == "table-append-only"
    assert len(rows_of(target)) == 10


class Mine:
    """An owner of rows whose run begins with `run-`."""

    def owned_below(self, run_id, tp):
        return 2**62 if run_id.startswith("run-") else 0

    def owns_all(self, lowest, highest, tp):
        return False


def test_rows_of_other_sources_at_the_same_addresses_stay(spark, target, rows):
    ensure(spark, target, rows(0, 1))
    land(spark, target, rows(0, 10), "run-1", 1)
    land(spark, target, rows(0, 10), "theirs", 1, app="kseg/other/job")
    removal = OfAddresses(OWN_ADDRESS, {TopicPartition("orders", 0): OffsetSet.of([(3, 6)])}, Mine())
    replaced = land(spark, target, rows(3, 6), "backfill", 1, app=f"{APP}/backfill", remove=removal)
    assert (replaced.commit.rows, replaced.commit.removed) == (3, 3)
    there = sorted((row["offset"], row["_kseg_run"]) for row in target.frame().collect())
    ours = [(n, "backfill" if 3 <= n < 6 else "run-1") for n in range(10)]
    assert there == sorted(ours + [(n, "theirs") for n in range(10)])


def test_an_attempt_that_another_one_overtakes_finds_its_commit(spark, target, rows, monkeypatch):
    ensure(spark, target, rows(0, 1))
    seen = SparkTarget._find_commit
    asleep = [True]

    def overtaken(self, *args):
        found = seen(self, *args)
        if asleep.pop() if asleep else False:
            # The check found nothing, and the process slept; meanwhile another attempt lands.
            assert isinstance(land(spark, target, rows(0, 10), "run-1", 1), NewCommit)
        return found

    monkeypatch.setattr(SparkTarget, "_find_commit", overtaken)
    assert isinstance(land(spark, target, rows(0, 10), "run-1", 1), FoundCommit)
    assert len(rows_of(target)) == 10


def test_an_attempt_that_lands_in_front_of_the_fence_is_removed_too(spark, target, rows, monkeypatch):
    ensure(spark, target, rows(0, 1))
    land(spark, target, rows(0, 10), "run-1", 1)
    seen = SparkTarget._find_commit
    asleep = [True]

    def overtaken(self, *args):
        found = seen(self, *args)
        if asleep.pop() if asleep else False:
            # The removal has found no rows and no transaction of the run, and slept; meanwhile the run lands.
            assert isinstance(land(spark, target, rows(10, 20), "run-2", 2), NewCommit)
        return found

    monkeypatch.setattr(SparkTarget, "_find_commit", overtaken)
    gone = target.remove_run(RunCommit("run-2", APP, 2))
    assert gone.after.rows == 10
    assert set(rows_of(target).values()) == {"run-1"}
    assert target.transaction_version(APP) == 2
    assert target.remove_run(RunCommit("run-2", APP, 2)).found


def test_an_append_that_spark_has_begun_fails_on_a_fence(spark, target, rows, tmp_path):
    """Behind any other commit without rows Delta would put the append, and never look at the fence."""
    planned = ensure(spark, target, rows(0, 1))
    begun, goes_on = tmp_path / "begun", tmp_path / "goes on"

    def slow(batches):
        begun.touch()
        while not goes_on.exists():
            time.sleep(0.01)
        yield from batches

    batch = rows(0, 10)
    there = spark.createDataFrame(pa.Table.from_batches([batch])).coalesce(1)
    frame = there.mapInArrow(slow, there.schema)
    run = RunCommit("run-1", APP, 1)
    with ThreadPoolExecutor(1) as pool:
        landing = pool.submit(target.land, frame, sink_schema(batch.schema), run, expected=planned)
        while not begun.exists() and not landing.done():
            time.sleep(0.01)
        try:
            SparkTarget(lambda: spark, path=target._path, single_driver=True).fence("run-1")
        finally:
            goes_on.touch()
        with pytest.raises(RetriableFailure, match="another writer committed"):
            landing.result()
    assert rows_of(target) == {}


def test_tables_are_named_by_a_catalog_too(spark, rows):
    target = SparkTarget(lambda: spark, table="spark_catalog.default.kseg_landed", single_driver=True)
    spark.sql("DROP TABLE IF EXISTS spark_catalog.default.kseg_landed")
    ensure(spark, target, rows(0, 1))
    outcome = land(spark, target, rows(0, 5), "run-1", 1)
    assert outcome.commit.rows == 5
    assert len(rows_of(target)) == 5
    spark.sql("DROP TABLE spark_catalog.default.kseg_landed")


def test_columns_are_merged_when_asked_and_told_when_not(spark, target, rows):
    ensure(spark, target, rows(0, 1))
    wider = rows(0, 5).append_column("body", pa.array(["b"] * 5))
    with pytest.raises(ConfigurationError, match="do not fit"):
        land(spark, target, wider, "run-1", 1)
    assert land(spark, target, wider, "run-1", 1, merge_schema=True).commit.rows == 5


def test_a_store_that_is_not_put_if_absent_is_refused(spark, tmp_path, rows):
    target = SparkTarget(lambda: spark, path=str(tmp_path / "t"))
    with pytest.raises(ConfigurationError) as caught:
        ensure(spark, target, rows(0, 1))
    assert caught.value.faults[0].path == "sink.single_driver"
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("place", "safe"),
    [
        ("/lake/t", False),
        ("file:/lake/t", False),
        ("s3a://bucket/t", False),
        ("abfss://lake@account/t", True),
        ("gs://bucket/t", True),
        ("hdfs://host/t", True),
        ("carrier-pigeon://roof/t", False),
    ],
)
def test_stores_are_known_by_their_scheme(spark, place, safe):
    assert (SparkTarget(lambda: spark, path=place)._unsafe(place) is None) is safe


def test_a_store_that_spark_has_no_file_system_for_is_told_in_words(spark):
    """Tasks and delta-rs write there with clients of their own, so nobody had noticed before."""
    with pytest.raises(ConfigurationError) as caught:
        SparkTarget(lambda: spark, path="s3://lake/orders").exists()
    [fault] = caught.value.faults
    assert "no file system for s3://" in fault.message
    with pytest.raises(ConfigurationError, match="no file system"), reaching("s3://lake/orders"):
        spark.read.format("delta").load("s3://lake/orders")


def test_s3_is_safe_with_the_dynamodb_log_store(spark):
    target = SparkTarget(lambda: spark, path="s3a://bucket/t")
    store = "io.delta.storage.S3DynamoDBLogStore"
    with setting(spark, **{"spark.delta.logStore.s3a.impl": store}):
        assert target._unsafe("s3a://bucket/t") is None
    assert target._unsafe("s3a://bucket/t") is not None


def test_a_changed_address_fails_the_row(spark, rows):
    batch = add_address(rows(0, 5))
    at = batch.schema.get_field_index("offset")
    changed = batch.set_column(at, batch.schema.field("offset"), pa.array([0, 1, 99, 3, 4], pa.int64()))
    assert frame(spark, batch, "run-1").columns == [*rows(0, 1).schema.names, "_kseg_run"]
    with pytest.raises(Exception, match="which are the row's address"):
        frame(spark, changed, "run-1").collect()


def test_a_table_has_a_path_or_a_name(spark):
    with pytest.raises(ValueError, match="a path or a name"):
        SparkTarget(lambda: spark)


LEDGER = "0c5ad8f2-57d8-4b8d-9c1c-5f2f5b3ff001"
FIRST, SECOND = (incremental_run_id(LEDGER, "clicks", number) for number in (1, 2))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"cluster_by": ["offset"]}, {"cluster_by": ["id"]}),
        ({"cluster_by": ["offset"]}, {"partition_by": ["id"]}),
        ({"partition_by": ["partition"]}, {"cluster_by": ["id"]}),
        ({"cluster_by": ["offset"]}, {}),
    ],
    ids=["clustering", "clustered-to-partitioned", "partitioned-to-clustered", "plain"],
)
def test_a_table_without_rows_gets_the_corrected_shape(spark, target, rows, before, after):
    """Spark's own reader and writer, and delta-rs, then find the same as in a table that was made so."""
    batch = rows(0, 5)
    wrong = batch.append_column("id", pa.array(range(5), pa.int64()))
    right = batch.append_column("id", pa.array([f"a{n}" for n in range(5)])).append_column(
        "at", pa.nulls(5, pa.timestamp("us"))
    )
    made, renewed = [], []
    for columns, how, run_id in ((wrong, before, FIRST), (right, after, SECOND), (right, after, SECOND)):
        frame = spark.createDataFrame(pa.Table.from_batches([columns]))
        sink = sink_schema(columns.schema)
        made.append(target.ensure(frame, sink, run_id=run_id, reshape=lambda: renewed.append(1), **how))
    assert ([state.version for state in made], renewed) == ([0, 1, 1], [1])
    assert made[0].id == made[1].id
    detail = target._detail()
    assert detail["partitionColumns"] == after.get("partition_by", [])
    assert (detail["clusteringColumns"] or []) == after.get("cluster_by", [])
    landed = land(spark, target, right, SECOND, 1, expected=made[1])
    assert isinstance(landed, NewCommit)
    found = spark.table(target._sql_name).select("id", "at").orderBy("id").collect()
    assert [row.id for row in found] == [f"a{n}" for n in range(5)]
    assert target.access().clustering_columns() == tuple(after.get("cluster_by", ()))


def test_a_table_that_spark_made_for_nobody_we_know_keeps_its_shape(spark, target, rows):
    ensure(spark, target, rows(0, 1))
    other = rows(0, 1).append_column("id", pa.array([1]))
    frame = spark.createDataFrame(pa.Table.from_batches([other]))
    sink = sink_schema(other.schema)
    state = target.ensure(frame, sink, cluster_by=["id"], run_id=FIRST, reshape=pytest.fail)
    assert (state.version, target._detail()["clusteringColumns"]) == (0, ["offset"])
