from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kseg.etl.spark.task_entry import landing_function
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.errors import AddressChanged, NoRoute, RouteChanged, UnlandableRow
from kseg.etl.tables.file_names import FileOwner, owner_of_file
from kseg.etl.tables.parquet.align import new_table
from kseg.etl.tables.parquet.data_file import WriterOptions
from kseg.etl.tables.parquet.schema import SinkSchema, sink_schema
from kseg.etl.tables.parquet.statistics import StatsSpec
from kseg.etl.tables.parquet.storage import TableLocation
from kseg.etl.tables.parquet.task_output import TASK_OUTPUT, read_task_output, written_files
from kseg.etl.tables.parquet.writer import LandingPlan, TableWrite, TaskWriter, land
from kseg.etl.tasks.error_transport import ErrorTransport
from row_addresses import add_address


@pytest.fixture
def plan_for(tmp_path):
    def make(schema, *, tables=("t",), partition_by=(), routes=None, options=None):
        sink = schema if isinstance(schema, SinkSchema) else sink_schema(schema)
        writes = []
        for name in tables:
            (tmp_path / name).mkdir(exist_ok=True)
            columns = new_table(sink, partition_by, table=name)
            stats = StatsSpec.of(columns.schema, partition_by)
            writes.append(TableWrite(TableLocation.of(tmp_path / name), columns, stats))
        return LandingPlan(FileOwner("run-1", 1), sink, tuple(writes), routes, options or WriterOptions())

    return make


def run(plan, batches, task=3, attempt=7):
    (facts,) = land(iter(batches), plan, task=task, attempt=attempt)
    assert facts.schema == TASK_OUTPUT
    told = list(read_task_output(facts.to_pylist()))
    assert all((fact.task, fact.attempt) == (task, attempt) for fact in told)
    return written_files(told), [fact for fact in told if fact.kind == "rows-written"]


def read(files, **how):
    return pa.concat_tables(pq.ParquetFile(Path(f.table) / f.path).read(**how) for f in files)


def all_files(folder):
    return [path for path in Path(folder).rglob("*") if path.is_file()]


def test_rows_come_back_as_they_went_in(plan_for, rows):
    batches = [rows(0, 10), rows(10, 30)]
    files, (count,) = run(plan_for(batches[0].schema), batches)
    (file,) = files
    there = read(files)
    assert there.drop_columns(["_kseg_run"]).equals(pa.Table.from_batches(batches).cast(there.schema.remove(8)))
    assert set(there.column("_kseg_run").to_pylist()) == {"run-1"}
    assert (file.rows, count.payload["rows"]) == (30, 30)
    assert file.size == (Path(file.table) / file.path).stat().st_size
    assert owner_of_file(file.path) == FileOwner("run-1", 1)
    assert "-run-1-3-7-" in file.path


def test_nothing_in_means_no_file_and_a_count_of_zero(plan_for, rows):
    plan = plan_for(rows().schema)
    files, (count,) = run(plan, [rows(0, 0)])
    assert files == []
    assert count.payload["rows"] == 0
    assert all_files(plan.tables[0].location.uri) == []


def test_row_groups_and_files_are_cut(plan_for, rows):
    options = WriterOptions(row_group_rows=50, file_bytes=1)
    batches = [rows(n, n + 25) for n in range(0, 200, 25)]
    files, _ = run(plan_for(batches[0].schema, options=options), batches)
    assert [file.rows for file in files] == [50, 50, 50, 50]
    assert read(files).column("offset").to_pylist() == list(range(200))


def test_a_large_batch_becomes_several_row_groups(plan_for, rows):
    files, _ = run(plan_for(rows().schema, options=WriterOptions(row_group_rows=30)), [rows(0, 100)])
    (file,) = files
    assert pq.ParquetFile(Path(file.table) / file.path).num_row_groups == 4


def test_memory_is_bounded_over_all_partitions(plan_for, rows):
    batch = rows(0, 2000)
    batch = batch.append_column("p", pa.array([n % 40 for n in range(2000)], pa.int32()))
    options = WriterOptions(buffered_bytes=batch.nbytes, open_files=8)
    plan = plan_for(batch.schema, partition_by=["p"], options=options)
    writer = TaskWriter(plan, task=0, attempt=0)
    for _ in range(5):
        writer.write(batch)
        (files,) = writer._tables.values()
        assert files._buffered <= options.buffered_bytes
        assert len(files._begun) <= options.open_files
    written = writer.close()
    assert sum(file.rows for file in written) == 10_000
    assert {file.partition_values["p"] for file in written} == {str(n) for n in range(40)}
    assert files._buffered == 0


def test_finished_files_hold_no_writer(plan_for, rows):
    """A task may write a file for each of many thousands of partition values."""
    batch = rows(0, 200).append_column("p", pa.array(range(200), pa.int32()))
    options = WriterOptions(buffered_bytes=1, open_files=8)
    with TaskWriter(plan_for(batch.schema, partition_by=["p"], options=options), task=0, attempt=0) as writer:
        writer.write(batch)
        (files,) = writer._tables.values()
        assert len(files._done) > 100
        assert sum(isinstance(one, pq.ParquetWriter) for one in gc.get_objects()) <= options.open_files
        writer.abort()
        assert all_files(files._uri) == []


def test_of_many_partitions_each_has_one_file_where_memory_lasts(plan_for, rows):
    """Batches in which all partitions take turns: more of them than there may be files begun at once."""
    batch = rows(0, 2000).append_column("p", pa.array([n % 200 for n in range(2000)], pa.int32()))
    plan = plan_for(batch.schema, partition_by=["p"], options=WriterOptions(open_files=8))
    files, _ = run(plan, [batch] * 5)
    assert sorted(int(file.partition_values["p"]) for file in files) == list(range(200))
    assert [file.rows for file in files] == [50] * 200


def test_a_batch_of_few_rows_counts_for_what_it_holds_besides(plan_for, rows):
    """One row of each partition a batch: the values are the least of what lies in memory."""
    batch = rows(0, 100).append_column("p", pa.array(range(100), pa.int32()))
    options = WriterOptions(buffered_bytes=1 << 20, open_files=8)
    writer = TaskWriter(plan_for(batch.schema, partition_by=["p"], options=options), task=0, attempt=0)
    for _ in range(20):
        writer.write(batch)
        (files,) = writer._tables.values()
        held = sum(len(file._batches) for file in files._open.values())
        assert held * 512 * batch.num_columns <= options.buffered_bytes
        assert len(files._begun) <= options.open_files
    assert sum(file.rows for file in writer.close()) == 2000


def test_rows_go_to_the_table_of_their_topic(plan_for, rows):
    plan = plan_for(rows().schema, tables=("a", "b"), routes={"x": 0, "y": 1, "z": 1})
    mixed = pa.concat_batches([rows(0, 3, topic="y"), rows(0, 4, topic="x"), rows(5, 7, topic="z")])
    files, _ = run(plan, [rows(0, 2, topic="x"), mixed])
    found = {
        Path(f.table).name: [(r["topic"], r["offset"]) for r in read([f], columns=["topic", "offset"]).to_pylist()]
        for f in files
    }
    assert found == {
        "a": [("x", 0), ("x", 1), ("x", 0), ("x", 1), ("x", 2), ("x", 3)],
        "b": [("y", 0), ("y", 1), ("y", 2), ("z", 5), ("z", 6)],
    }


def test_a_topic_without_a_route_is_an_error(plan_for, rows):
    plan = plan_for(rows().schema, tables=("a", "b"), routes={"x": 0, "y": 1})
    with pytest.raises(NoRoute, match="'orders'"):
        run(plan, [rows()])


def test_a_failed_attempt_deletes_its_files(plan_for, rows):
    plan = plan_for(rows().schema, options=WriterOptions(row_group_rows=10, file_bytes=1))

    def batches():
        yield rows(0, 25)
        yield rows(25, 50)
        assert all_files(plan.tables[0].location.uri)
        raise OSError("the broker is gone")

    with pytest.raises(OSError, match="the broker is gone"):
        run(plan, batches())
    assert all_files(plan.tables[0].location.uri) == []


def test_an_attempt_that_is_told_to_stop_deletes_its_files(plan_for, rows):
    plan = plan_for(rows().schema, options=WriterOptions(row_group_rows=10))

    def batches():
        yield rows(0, 25)
        assert all_files(plan.tables[0].location.uri)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(plan, batches())
    assert all_files(plan.tables[0].location.uri) == []


@pytest.mark.parametrize(("column", "value"), [("topic", "other"), ("partition", 9), ("offset", 99), ("offset", None)])
def test_a_transform_that_changes_an_address_is_found_out(plan_for, rows, column, value):
    batch = add_address(rows(0, 10))
    at = batch.schema.get_field_index(column)
    values = batch.column(column).to_pylist()
    values[5] = value
    changed = batch.set_column(at, batch.schema.field(column), pa.array(values, batch.column(column).type))
    with pytest.raises(AddressChanged, match=column) as caught:
        run(plan_for(batch.schema), [changed])
    assert pickle.loads(pickle.dumps(caught.value)).address == {"column": column}


def test_an_address_that_came_through_lands_without_its_copy(plan_for, rows):
    batch = add_address(rows(0, 10))
    files, _ = run(plan_for(batch.schema), [batch])
    assert read(files).column_names == [*rows().schema.names, "_kseg_run"]


def test_nulls_do_not_enter_not_null_columns(tmp_path, lander, rows):
    from deltalake import DeltaTable, Schema

    table = lander()
    sink = sink_schema(rows().schema)
    fields = [pa.field(f.name, f.type, nullable=f.name != "value") for f in sink.columns]
    DeltaTable.create(table.path, Schema.from_arrow(pa.schema(fields)))
    with pytest.raises(UnlandableRow, match="column value: holds a null"):
        table.write([rows(0, 5)])
    table.land(rows(1, 3))
    assert len(table.offsets()) == 2


def test_an_empty_string_does_not_enter_a_partition_column_that_is_not_null(lander, rows):
    from deltalake import DeltaTable, Schema

    table = lander()
    sink = sink_schema(rows().schema)
    fields = [pa.field(f.name, f.type, nullable=f.name != "topic") for f in sink.columns]
    DeltaTable.create(table.path, Schema.from_arrow(pa.schema(fields)), partition_by=["topic"])
    with pytest.raises(UnlandableRow, match="column topic: holds an empty string"):
        table.write([rows(0, 5, topic="")])
    table.land(rows(0, 5))
    assert len(table.offsets()) == 5


def test_values_are_widened_to_the_tables_types(lander, rows):
    table = lander()
    wide = rows().schema.set(6, pa.field("timestampType", pa.int64()))
    table.target.ensure(sink_schema(wide))
    table.land(rows(0, 5))
    loaded = table.target.load()
    assert pa.table(loaded.scan().read_all()).schema.field("timestampType").type == pa.int64()


def test_times_that_microseconds_cannot_hold_are_told(plan_for):
    schema = pa.schema([("at", pa.timestamp("ns", "UTC"))])
    plan = plan_for(sink_schema(schema, addresses=False))
    with pytest.raises(UnlandableRow, match="column at"):
        run(plan, [pa.record_batch([pa.array([1], schema.field(0).type)], schema=schema)])


def test_encodings_suit_the_columns(plan_for, rows):
    files, _ = run(plan_for(rows().schema), [rows(0, 1000)])
    (file,) = files
    group = pq.ParquetFile(Path(file.table) / file.path).metadata.row_group(0)
    encodings = {group.column(i).path_in_schema: set(group.column(i).encodings) for i in range(group.num_columns)}
    assert "DELTA_BINARY_PACKED" in encodings["offset"] & encodings["timestamp"]
    assert "RLE_DICTIONARY" in encodings["topic"] & encodings["_kseg_run"]
    assert "RLE_DICTIONARY" not in encodings["key"] | encodings["value"]
    assert group.column(0).compression == "SNAPPY"
    size = {group.column(i).path_in_schema: group.column(i).total_compressed_size for i in range(group.num_columns)}
    assert max(size[name] for name in ("topic", "partition", "timestampType", "_kseg_run")) < 200


def test_workers_import_neither_spark_nor_delta_rs():
    unwanted = "('pyspark', 'deltalake', 'pydantic')"
    code = f"import sys, kseg.etl.tables.parquet.writer; print([m for m in {unwanted} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ)
    assert out.stdout.strip() == "[]"


def test_spark_tasks_land_rows_and_tell_their_files(lander, rows, spark, duck):
    table = lander()
    sink = sink_schema(rows().schema)
    ready = table.target.ensure(sink)
    plan = LandingPlan(FileOwner("run-1", 1), sink, (ready.write,))

    def read_range(batches):
        # As in a job: what a task reads depends on its number alone.
        for batch in batches:
            for n in batch.column("id").to_pylist():
                yield rows(n * 100, n * 100 + 100)

    ddl = (
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
        "headers array<struct<key: string, value: binary>>"
    )
    frame = spark.range(0, 4, 1, 4).mapInArrow(read_range, ddl)
    facts = frame.mapInArrow(
        landing_function(plan, ErrorTransport()), "kind string, task int, attempt bigint, payload string"
    ).collect()
    files = written_files(read_task_output(facts))
    assert sorted(f.rows for f in files) == [100] * 4
    table.commit(files)
    assert [offset for _, _, offset in table.offsets()] == list(range(400))

    expected = pa.Table.from_batches([rows(0, 400)])
    by_spark = spark.read.format("delta").load(table.path).orderBy("offset").drop("_kseg_run").toArrow()
    assert by_spark.select(expected.column_names).cast(expected.schema).equals(expected)
    by_duck = duck.sql(f"select * exclude (_kseg_run) from delta_scan('{table.path}') order by \"offset\"").arrow()
    assert pa.table(by_duck).cast(expected.schema).equals(expected)


def test_files_are_skipped_by_offset(lander, rows, spark):
    table = lander()
    for number in range(4):
        files = table.write([rows(number * 100, number * 100 + 100)], f"run-{number}")
        table.commit(files, f"run-{number}", number + 1)
    # The address, and what comes with it, are known by the statistics of one file alone.
    for condition in (
        "offset >= 150 and offset < 160",
        "_kseg_run = 'run-1'",
        "timestamp = '2026-01-01T00:00:00.155Z'",
    ):
        frame = spark.read.format("delta").load(table.path).where(condition)
        assert len(frame.inputFiles()) == 1
        assert len(table.target.load().file_uris(file_pruning_predicate=condition)) == 1
    assert spark.read.format("delta").load(table.path).where("offset >= 150 and offset < 160").count() == 10


def test_a_target_travels_to_the_workers(tmp_path, plan_for, rows):
    plan = plan_for(rows().schema)
    assert pickle.loads(pickle.dumps(plan)) == plan
    assert DeltaTarget(str(tmp_path / "t")).location == plan.tables[0].location


def test_rows_go_to_the_table_of_their_route_and_those_of_landed_tables_nowhere(plan_for, rows):
    plan = plan_for(rows().schema, tables=("a", "b"), routes={"x": 0, "y": 1, "*": 1, "z": None})
    plan = replace(plan, routed=True)
    batch = rows(0, 8).append_column("_kseg_route", pa.array(["x", "z", "*", "y", "z", "x", "*", "x"]))
    files, (count,) = run(plan, [batch])
    found = {Path(f.table).name: read([f], columns=["offset"])["offset"].to_pylist() for f in files}
    assert found == {"a": [0, 5, 7], "b": [2, 3, 6]}
    assert dict(count.payload) == {"rows": 8, "passed": 2}
    with pytest.raises(RouteChanged, match="'other'"):
        run(plan, [rows(0, 1).append_column("_kseg_route", pa.array(["other"]))])
    with pytest.raises(RouteChanged, match="None"):
        run(plan, [rows(0, 1).append_column("_kseg_route", pa.array([None], pa.string()))])
