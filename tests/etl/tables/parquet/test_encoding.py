"""Columns whose values nearly all differ have no dictionary in the file; those whose values repeat have one."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kseg.etl.tables.parquet.encoding import SAMPLE, encodings

ROWS = 3 * SAMPLE


def written(rows: pa.Table) -> dict[str, tuple[str, ...]]:
    """Encodings of each leaf of a file."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False, **encodings(rows)) as writer:
        writer.write_table(rows)
    group = pq.read_metadata(pa.BufferReader(sink.getvalue())).row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    assert pq.read_table(pa.BufferReader(sink.getvalue())).equals(rows)
    return {column.path_in_schema: column.encodings for column in columns}


def has_dictionary(encoding: tuple[str, ...]) -> bool:
    return any("DICTIONARY" in each for each in encoding)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([n * 7919 for n in range(ROWS)], False),
        ([n % 1000 for n in range(ROWS)], True),
        ([f"customer {n}" for n in range(ROWS)], False),
        (["EUR", "USD", None] * (ROWS // 3), True),
        ([n / 7 for n in range(ROWS)], False),
        ([None] * ROWS, True),
        ([None if n % 5 else n for n in range(ROWS)], False),
    ],
)
def test_only_what_repeats_has_a_dictionary(values: list[Any], expected: bool) -> None:
    kind = pa.int64() if values[0] is None else None
    assert has_dictionary(written(pa.table({"x": pa.array(values, kind)}))["x"]) is expected


def test_leaves_of_nested_columns_are_decided_one_by_one() -> None:
    rows = pa.table(
        {
            "s": [{"id": n, "kind": n % 3} for n in range(ROWS)],
            "items": [[{"sku": f"{n}-{item}", "size": item} for item in range(n % 3)] for n in range(ROWS)],
            "tags": pa.array([[("channel", n)] for n in range(ROWS)], pa.map_(pa.string(), pa.int64())),
        }
    )
    found = {path: has_dictionary(encoding) for path, encoding in written(rows).items()}
    assert found == {
        "s.id": False,
        "s.kind": True,
        "items.list.element.sku": False,
        "items.list.element.size": True,
        "tags.key_value.key": True,
        "tags.key_value.value": False,
    }


def test_many_values_within_a_dictionarys_size_repeat() -> None:
    """30,000 numbers are a page of 240 kB and two bytes a row."""
    rows = pa.table({"x": [(n * 7919) % 30_000 for n in range(20 * SAMPLE)]})
    assert has_dictionary(written(rows)["x"])


def test_few_rows_are_not_sampled() -> None:
    assert has_dictionary(written(pa.table({"x": list(range(100))}))["x"])


def test_times_and_offsets_are_deltas_and_bytes_are_plain() -> None:
    times = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 2000, pa.timestamp("us", "UTC"))
    rows = pa.table({"at": times, "_kseg_offset": range(2000), "value": pa.array([b"x"] * 2000, pa.binary())})
    found = written(rows)
    assert "DELTA_BINARY_PACKED" in found["at"]
    assert "DELTA_BINARY_PACKED" in found["_kseg_offset"]
    assert not has_dictionary(found["value"])


def test_a_file_without_rows_has_a_schema() -> None:
    assert encodings(pa.schema([("x", pa.int64()), ("l", pa.list_(pa.string()))]).empty_table())


@pytest.mark.parametrize("name", ["offset", "_kseg_offset", "batchBaseOffset", "sequence"])
@pytest.mark.parametrize(
    "values",
    [
        ["a", None],
        [1.5, 2.5],
        [Decimal(2**63), Decimal(1)],
        [b"a", b"b"],
        [True, False],
        [1, 2],
        [[1], [2]],
        [{"x": 1}],
    ],
    ids=lambda values: type(values[0]).__name__,
)
def test_a_users_column_of_the_name_of_one_of_kafkas_has_any_type(name: str, values: list[Any]) -> None:
    written(pa.table({name: pa.array(values)}))


@pytest.mark.parametrize("kind", [pa.string(), pa.int64(), pa.binary()], ids=str)
def test_a_path_of_two_leaves_is_encoded_for_both(kind: pa.DataType) -> None:
    at = pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC"))
    inner = pa.array([{"b": None}] * 3, pa.struct([("b", kind)]))
    rows = pa.table({"a.b": at, "a": inner, "c": at})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, store_schema=False, **encodings(rows)) as writer:
        writer.write_table(rows)
    assert pq.read_table(pa.BufferReader(sink.getvalue())).column("a.b").equals(rows.column("a.b"))
    assert encodings(rows)["column_encoding"] == {"c": "DELTA_BINARY_PACKED"}
