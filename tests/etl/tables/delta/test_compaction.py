"""Small files become fewer large ones, and each row is what it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from compacted_tables import DETAILS, compact, files, live, log_of, maintenance, rows_of, values
from kseg.etl.errors import KsegError
from kseg.etl.ledger.values import TableState
from kseg.etl.tables.delta import compaction
from kseg.etl.tables.delta.compaction import plan_bins
from kseg.etl.tables.delta.log import incidents_since, read_commit
from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.parquet.data_file import DataFile

# --- what is rewritten -----------------------------------------------------------------------------------------------


def test_nothing_to_do_commits_nothing(path):
    assert compact(path) == 6
    version = DeltaTable(path).version()
    assert compact(path) == 0
    assert DeltaTable(path).version() == version


@pytest.mark.parametrize("dry_run", [True, False])
def test_bins_are_filled_up_to_the_target_and_none_is_of_one_file(tmp_path, dry_run):
    path = str(tmp_path / "table")
    for n in range(7):
        write_deltalake(path, pa.table({"p": ["a"], "x": [n]}), mode="append", partition_by=["p"])
    write_deltalake(path, pa.table({"p": ["b"], "x": [7]}), mode="append")
    size = max(file.size for one in plan_bins(DeltaTable(path)) for file in one)
    DeltaTable(path).alter.set_table_properties({"delta.targetFileSize": str(3 * size)})
    assert [len(one) for one in plan_bins(DeltaTable(path))] == [3, 3]
    assert maintenance(path).optimize((), dry_run=dry_run, details=DETAILS) == 6
    assert len(live(path)) == (8 if dry_run else 4)
    assert values(path) == [*range(8)]


@pytest.mark.parametrize(
    ("text", "bins"), [("1kb", [2, 2, 2]), ("100 MB", [6]), ("1B", []), ("large", [6]), ("0", [6])]
)
def test_a_target_size_may_have_a_unit_and_one_that_is_none_is_passed_over(path, text, bins):
    DeltaTable(path).alter.set_table_properties({"delta.targetFileSize": text}, raise_if_not_exists=False)
    assert [len(one) for one in plan_bins(DeltaTable(path))] == bins


def test_rows_keep_their_order_within_a_bin(path):
    compact(path)
    (name,) = live(path)
    assert pq.read_table(Path(path) / name)["x"].to_pylist() == [*range(6)]


def test_the_commit_says_what_it_is_and_is_no_change_of_data(path):
    state = Snapshot(path).state()
    assert compact(path) == 6
    actions = log_of(path, 6)
    (info,) = (action["commitInfo"] for action in actions if "commitInfo" in action)
    (add,) = (action["add"] for action in actions if "add" in action)
    removes = [action["remove"] for action in actions if "remove" in action]
    assert (info["kseg"]["job"], info["kseg"]["maintain"]) == ("orders", "optimize")
    assert json.loads(info["userMetadata"]) == {"maintain": "optimize", "files": 6, "into": 1}
    assert not info.get("isBlindAppend")
    assert [action["dataChange"] for action in (add, *removes)] == [False] * 7
    assert json.loads(add["stats"]) == {
        "numRecords": 6,
        "minValues": {"x": 0},
        "maxValues": {"x": 5},
        "nullCount": {"x": 0},
    }
    access = DeltaAccess(path)
    now = Snapshot(path).state()
    assert now == TableState(state.id, 6, 6)
    assert incidents_since(access.log, state, now) == ()
    commit = read_commit(access.log, 6)
    assert commit is not None
    assert (commit.run, commit.ours, commit.removed) == (None, False, 6)


def test_vacuum_deletes_the_old_files(path):
    compact(path)
    assert len(files(path)) == 7
    gone = maintenance(path).vacuum(timedelta(0), datetime.now(UTC) + timedelta(hours=1), dry_run=False)
    assert gone.files == 6
    assert files(path) == live(path)
    assert values(path) == [*range(6)]


def test_vacuum_leaves_the_files_of_a_table_inside_the_folder(path):
    inside = f"{path}/inside"
    write_deltalake(inside, pa.table({"n": [1, 2]}))
    gone = maintenance(path).vacuum(timedelta(0), datetime.now(UTC) + timedelta(hours=1), dry_run=False)
    assert gone.files == 0
    assert DeltaTable(inside).to_pyarrow_table().num_rows == 2


def test_columns_that_were_added_later_are_null_in_older_rows(tmp_path):
    path = str(tmp_path / "table")
    struct = pa.struct([("a", pa.int64())])
    wider = pa.struct([("a", pa.int64()), ("b", pa.string())])
    write_deltalake(path, pa.table({"x": [0], "s": pa.array([{"a": 1}], struct)}))
    write_deltalake(
        path,
        pa.table({"x": [1], "s": pa.array([{"a": 2, "b": "b"}], wider), "y": ["new"]}),
        mode="append",
        schema_mode="merge",
    )
    assert compact(path) == 2
    assert rows_of(path) == [
        {"x": 0, "s": {"a": 1, "b": None}, "y": None},
        {"x": 1, "s": {"a": 2, "b": "b"}, "y": "new"},
    ]
    (add,) = (action["add"] for action in log_of(path, 2) if "add" in action)
    assert json.loads(add["stats"])["nullCount"] == {"x": 0, "s": {"a": 0, "b": 1}, "y": 1}


SPECIAL = "a b/c%d=:'\"+&,;@$!~()#?[]{}^\\|<>*.x\t\x7f"


@pytest.mark.parametrize("writer", ["delta-rs", "spark", "kseg"])
def test_partitions_with_special_characters_and_null(tmp_path, writer, lander, spark):
    path = str(tmp_path / "table")
    parts = [SPECIAL, None, "plain", "%41", "a+b"]
    for n in range(3):
        rows = pa.table({"p": pa.array(parts, pa.string()), "q": [date(2026, 1, 1)] * 5, "x": range(n * 5, n * 5 + 5)})
        if writer == "delta-rs":
            write_deltalake(path, rows, mode="append", partition_by=["p", "q"])
        elif writer == "spark":
            frame = spark.createDataFrame(rows.to_pylist(), "p string, q date, x bigint")
            frame.write.format("delta").mode("append").partitionBy("p", "q").save(path)
        else:
            table = lander()
            table.commit(
                table.write(rows.to_batches(), f"run-{n}", partition_by=["p", "q"], addresses=False),
                f"run-{n}",
                n + 1,
            )
            path = table.path
    assert compact(path) == 15
    assert len(live(path)) == 5
    for found in (
        [{name: row[name] for name in "pqx"} for row in rows_of(path)],
        [row.asDict() for row in spark.read.format("delta").load(path).select("p", "q", "x").collect()],
    ):
        expected = [{"p": parts[x % 5], "q": date(2026, 1, 1), "x": x} for x in range(15)]
        assert sorted(found, key=lambda row: row["x"]) == expected
    maintenance(path).vacuum(timedelta(0), datetime.now(UTC) + timedelta(hours=1), dry_run=False)
    assert values(path) == [*range(15)]
    assert len(files(path)) == 5


def test_files_whose_paths_delta_rs_would_encode_in_another_way_are_left_alone(tmp_path, spark):
    """Spark leaves characters beyond ASCII as they are. The files would not be removed, and their rows be doubled."""
    path = str(tmp_path / "table")
    for n in range(2):
        frame = spark.createDataFrame([(p, n) for p in ("é", "e")], "p string, x bigint")
        frame.write.format("delta").mode("append").partitionBy("p").save(path)
    for n in range(2, 4):
        write_deltalake(path, pa.table({"p": ["é", "e"], "x": [n, n]}), mode="append")
    assert compact(path) == 2 + 4
    assert len(live(path)) == 2 + 1 + 1
    assert values(path) == sorted([*range(4)] * 2)
    assert spark.read.format("delta").load(path).count() == 8


TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "nested": (
        pa.list_(pa.struct([("k", pa.string()), ("m", pa.map_(pa.string(), pa.int32()))])),
        [[{"k": "a", "m": [("x", 1)]}, None], [], None],
    ),
    "decimal": (pa.decimal128(38, 10), [Decimal("-1.0000000001"), Decimal("9" * 28), None]),
    "zoned": (
        pa.timestamp("us", tz="UTC"),
        [datetime(2026, 1, 1, 0, 0, 0, 123456, UTC), datetime(1900, 1, 1, tzinfo=UTC), None],
    ),
    "local": (pa.timestamp("us"), [datetime(2026, 1, 1, 12, 0, 0, 1), datetime(1900, 1, 1), None]),
    "date": (pa.date32(), [date(2026, 1, 1), date(1, 1, 1), None]),
    "binary": (pa.binary(), [b"\x00\xff", b"", None]),
    "float": (pa.float32(), [float("inf"), -0.5, None]),
    "boolean": (pa.bool_(), [True, False, None]),
    "byte": (pa.int8(), [-128, 127, None]),
}


def test_values_of_all_types_are_what_they_were(tmp_path):
    path = str(tmp_path / "table")
    schema = pa.schema([pa.field("x", pa.int64())] + [pa.field(name, kind) for name, (kind, _) in TYPES.items()])
    expected = []
    for n in range(3):
        row = {"x": n} | {name: found[n] for name, (_, found) in TYPES.items()}
        expected.append(row)
        write_deltalake(path, pa.Table.from_pylist([row], schema), mode="append")
    assert compact(path) == 3
    assert rows_of(path) == expected


def test_files_of_other_writers_have_the_tables_types_afterwards(tmp_path, spark):
    """Spark's old 96-bit timestamps, nanoseconds, view types and dictionaries."""
    path = str(tmp_path / "table")
    moment = datetime(2026, 1, 1, 0, 0, 0, 123456, UTC)
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    try:
        spark.sql("SELECT 1L x, 'spark' s, timestamp'2026-01-01 00:00:00.123456Z' t").write.format("delta").save(path)
    finally:
        spark.conf.unset("spark.sql.parquet.outputTimestampType")
    write_deltalake(path, pa.table({"x": [2], "s": ["delta-rs"], "t": [moment]}), mode="append")
    for n, (s, unit) in enumerate([(pa.string_view(), "ns"), (pa.dictionary(pa.int32(), pa.string()), "us")], 3):
        rows = pa.table(
            {"x": [n], "s": pa.array(["arrow"]).cast(s), "t": pa.array([moment], pa.timestamp(unit, "UTC"))}
        )
        _append_file(path, rows)
    assert compact(path) == 4
    expected = [(1, "spark", moment), (2, "delta-rs", moment), (3, "arrow", moment), (4, "arrow", moment)]
    assert [tuple(row.values()) for row in rows_of(path)] == expected
    (name,) = live(path)
    kinds = pq.read_schema(Path(path) / name)
    assert kinds.types == [pa.int64(), pa.string(), pa.timestamp("us", tz="UTC")]


def _append_file(path: str, rows: pa.Table, counted: int | None = None) -> None:
    """Commit rows in a file with the types that they have. counted: by the statistics."""
    from deltalake.transaction import AddAction

    table = DeltaTable(path)
    name = f"other-{table.version()}.parquet"
    pq.write_table(rows, Path(path) / name)
    stats = json.dumps({"numRecords": rows.num_rows if counted is None else counted})
    size = (Path(path) / name).stat().st_size
    add = AddAction(name, size, {}, 10**13 + table.version(), True, stats)
    table.create_write_transaction([add], "append", table.schema())


def test_a_file_with_other_rows_than_the_log_says_is_not_replaced(path):
    _append_file(path, pa.table({"x": [6, 7]}), counted=3)
    before, version = files(path), DeltaTable(path).version()
    with pytest.raises(KsegError, match="has 2 rows, and 3 by the table's log"):
        compact(path)
    assert (files(path), DeltaTable(path).version()) == (before, version)


def test_an_append_only_table_is_compacted(path):
    DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"})
    assert compact(path) == 6
    assert values(path) == [*range(6)]


def test_what_is_held_in_memory_is_bounded(path, monkeypatch):
    made = []
    whole = DataFile.__init__

    def spy(self, *args: Any) -> None:
        made.append(args[-1])
        whole(self, *args)

    monkeypatch.setattr(DataFile, "__init__", spy)
    compact(path)
    (options,) = made
    assert options.row_group_bytes * compaction.AT_ONCE <= options.buffered_bytes


# --- Spark reads it --------------------------------------------------------------------------------------------------


@pytest.fixture
def stream(path: str, tmp_path: Path, spark: Any) -> Callable[[], list[int]]:
    """`stream()`: what a Delta stream that goes on from where it was finds new."""
    count = iter(range(10))

    def read() -> list[int]:
        into = str(tmp_path / f"sink-{next(count)}")
        query = (
            spark.readStream.format("delta")
            .load(path)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", into)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        found = [pq.read_table(file)["x"].to_pylist() for file in Path(into).glob("*.parquet")]
        return sorted(x for part in found for x in part)

    return read


def test_a_stream_reads_no_row_again(path, stream, spark):
    assert stream() == [*range(6)]
    compact(path)
    assert stream() == []
    write_deltalake(path, pa.table({"x": [6]}), mode="append")
    assert stream() == [6]
    latest = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").where("version = 6").collect()[0]
    assert (latest["operation"], json.loads(latest["userMetadata"])["maintain"]) == ("WRITE", "optimize")
    assert sorted(row["x"] for row in spark.read.format("delta").load(path).collect()) == [*range(7)]


def test_in_a_bucket(s3, monkeypatch):
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    uri = "s3://logs/compaction"
    for n in range(3):
        write_deltalake(uri, pa.table({"p": ["a b/é", None], "x": [n, n + 3]}), mode="append", partition_by=["p"])
    assert compact(uri) == 6
    assert values(uri) == [*range(6)]
    assert len(DeltaTable(uri).file_uris()) == 2
    gone = maintenance(uri).vacuum(timedelta(0), datetime.now(UTC) + timedelta(hours=1), dry_run=False)
    assert gone.files == 6
    assert values(uri) == [*range(6)]
