from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.tables.parquet.data_file import DataFile, WriterOptions
from kseg.etl.tables.parquet.statistics import StatsCollector, StatsSpec, null_counts, properties_for, truncate_max
from kseg.etl.tables.parquet.storage import TableLocation

ROWS = 90


def stats_of(tmp_path, table: pa.Table, spec: StatsSpec | None = None, row_group_rows: int = 1 << 20) -> Any:
    store = TableLocation.of(tmp_path).open()
    collector = StatsCollector(spec or StatsSpec.of(table.schema), table.schema)
    file = DataFile(store, "part.parquet", table.schema, collector, WriterOptions(row_group_rows=row_group_rows))
    for batch in table.to_batches(max_chunksize=7):
        file.append(batch)
    return json.loads(file.close(str(tmp_path), {}).stats, parse_float=Decimal)


def typical() -> pa.Table:
    n = range(ROWS)
    nested = pa.struct([("x", pa.int32()), ("y", pa.string()), ("z", pa.list_(pa.int32()))])
    return pa.table(
        {
            "key": pa.array([b"k"] * ROWS, pa.binary()),
            "topic": pa.array(["orders"] * ROWS),
            "offset": pa.array(n, pa.int64()),
            "timestamp": pa.array([1_767_225_600_123_000 + 1000 * i for i in n], pa.timestamp("us", "UTC")),
            "plain": pa.array([1_767_225_600_123_000] * ROWS, pa.timestamp("us")),
            "headers": pa.nulls(ROWS, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            "nested": pa.array([{"x": i, "y": "v" * i, "z": [1, None]} if i % 3 else None for i in n], nested),
            "day": pa.array([dt.date(2024, 1, 1 + i % 28) for i in n]),
            "decimal": pa.array([Decimal(i - 7) / 4 for i in n], pa.decimal128(10, 2)),
            "double": pa.array([i / 4 if i else None for i in n]),
            "yes": pa.array([True] * ROWS),
            "long": pa.array(["x" * 40 + str(i) for i in n]),
            "emoji": pa.array(["é" * 31 + "😀" * 3] * ROWS),
            "nothing": pa.nulls(ROWS, pa.string()),
            "small": pa.array([i - 50 for i in n], pa.int8()),
            "map": pa.array([[("k", 1)]] * ROWS, pa.map_(pa.string(), pa.int32())),
        }
    )


def test_statistics_equal_those_that_spark_writes(tmp_path, spark):
    table = typical()
    pq.write_table(table, tmp_path / "in.parquet")
    frame = spark.read.parquet(str(tmp_path / "in.parquet")).coalesce(1)
    frame.write.format("delta").save(str(tmp_path / "spark"))
    log = (tmp_path / "spark/_delta_log/00000000000000000000.json").read_text().splitlines()
    (add,) = [json.loads(line)["add"] for line in log if '"add"' in line]
    assert stats_of(tmp_path, table) == json.loads(add["stats"], parse_float=Decimal)


@pytest.mark.parametrize("row_group_rows", [1, 13, ROWS])
def test_row_groups_do_not_show(tmp_path, row_group_rows):
    assert stats_of(tmp_path, typical(), row_group_rows=row_group_rows) == stats_of(tmp_path, typical())


def test_timestamps_are_rounded_outwards_to_milliseconds(tmp_path):
    table = pa.table({"at": pa.array([-1_999_001, 1_000_001], pa.timestamp("us", "UTC"))})
    stats = stats_of(tmp_path, table)
    assert stats["minValues"] == {"at": "1969-12-31T23:59:58.000Z"}
    assert stats["maxValues"] == {"at": "1970-01-01T00:00:01.001Z"}


def test_bounds_that_would_lie_are_left_out(tmp_path):
    far = 2**62
    table = pa.table(
        {
            "nan": pa.array([1.0, float("nan")]),
            "infinite": pa.array([float("-inf"), 1.0]),
            "late": pa.array([0, far], pa.timestamp("us", "UTC")),
            "huge": pa.array(["a", "b" * 5000]),
            "nested": pa.array([{"f": 1.0}, {"f": float("nan")}], pa.struct([("f", pa.float32())])),
            "fine": [1, 2],
        }
    )
    stats = stats_of(tmp_path, table)
    assert stats["minValues"] == {"nan": 1, "late": "1970-01-01T00:00:00.000Z", "nested": {"f": 1}, "fine": 1}
    assert stats["maxValues"] == {"infinite": 1, "fine": 2}


def test_only_the_first_32_leaves_have_statistics(tmp_path):
    wide = pa.table({f"c{i}": [{"a": i, "b": i}] if i == 30 else [i] for i in range(40)})
    stats = stats_of(tmp_path, wide)
    assert list(stats["nullCount"]) == [f"c{i}" for i in range(31)]
    assert list(stats["nullCount"]["c30"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("properties", "paths"),
    [
        ({"delta.dataSkippingNumIndexedCols": "2"}, [("a",), ("s", "x")]),
        ({"delta.dataSkippingNumIndexedCols": "-1"}, [("a",), ("s", "x"), ("s", "y.z"), ("d",)]),
        ({"delta.dataSkippingStatsColumns": "D, s.`y.z`"}, [("s", "y.z"), ("d",)]),
        ({"delta.dataSkippingStatsColumns": "s"}, [("s", "x"), ("s", "y.z")]),
    ],
)
def test_table_properties_choose_the_columns(properties, paths):
    schema = pa.schema(
        [
            ("p", pa.string()),
            ("a", pa.int8()),
            ("s", pa.struct([("x", pa.int8()), ("y.z", pa.int8())])),
            ("d", pa.int8()),
        ]
    )
    assert StatsSpec.of(schema, ["p"], properties).paths == tuple(paths)


def test_a_wide_new_table_is_told_to_index_its_address():
    narrow, wide = (pa.schema([(f"c{i}", pa.int8()) for i in range(n)] + [("offset", pa.int64())]) for n in (5, 50))
    assert properties_for(narrow, [], {"offset"}) == {}
    assert properties_for(wide, [], {"offset"}) == {"delta.dataSkippingNumIndexedCols": "51"}
    assert properties_for(wide, ["c0"], {"offset"}) == {"delta.dataSkippingNumIndexedCols": "50"}


def test_columns_that_a_file_lacks_are_all_null(tmp_path):
    spec = StatsSpec.of(pa.schema([("a", pa.int8()), ("later", pa.string())]))
    assert stats_of(tmp_path, pa.table({"a": [1, 2]}), spec)["nullCount"] == {"a": 0, "later": 2}


@given(st.text(st.sampled_from("a\x7fé\uffff\U0010ffff😀"), max_size=80))
def test_a_cut_upper_bound_is_not_below_what_it_bounds(text):
    bound = truncate_max(text)
    assert bound is None or bound.encode() >= text.encode()
    assert bound is None or len(bound.encode("utf-16-le")) // 2 <= 2 * 32 + 4


@given(st.text(max_size=60))
def test_short_strings_are_told_whole(text):
    if len(text.encode("utf-16-le")) // 2 <= 32:
        assert truncate_max(text) == text


def test_nulls_are_added_up_over_files_by_column_and_field() -> None:
    files = [
        '{"numRecords": 3, "nullCount": {"a": 1, "s": {"x": 2, "y": {"z": 0}}}}',
        '{"numRecords": 2, "nullCount": {"a": 2, "s": {"x": 0, "y": {"z": 1}}, "b": 2}}',
        '{"numRecords": 1}',
        "{}",
    ]
    assert null_counts(files) == {"a": 3, "s.x": 2, "s.y.z": 1, "b": 2}
