"""Both formats of the wide rows have the same values, and tables that differ are no figure. All ways land in
`test_measuring.py`."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kseg.jobs.bench import lake
from kseg.jobs.bench.contenders import WrongCount
from kseg.jobs.bench.figures import OURS, SPARK, MeasuredRun
from kseg.jobs.bench.typed import ColumnSums

FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def decoded(shape: lake.json_payloads.JsonShape | lake.avro_payloads.AvroShape) -> list[dict[str, object]]:
    payloads = pa.array([shape.make(Random(seed)) for seed in range(300)], pa.binary())
    found = shape.decoder("fast").decode(payloads)
    assert not found.status.any()
    return [{name: row[name] for name in lake.COLUMNS} for row in found.rows.to_pylist()]


def test_json_and_avro_decode_to_the_same_forty_columns() -> None:
    rows = decoded(lake.JSON)
    assert rows == decoded(lake.AVRO)
    kinds = Counter(lake.COLUMNS.values())
    assert len(lake.COLUMNS) == 40
    assert kinds.keys() == {"bigint", "string", "double", "decimal(12,2)", "timestamp", "boolean"}
    made = lake.row(Random(0))
    assert rows[0]["net"] == Decimal(made["net"]) / 100
    assert rows[0]["created_at"] == FIRST + timedelta(milliseconds=made["created_at"] - 1_767_225_600_000)


def test_rows_are_of_all_days_and_some_columns_have_nulls() -> None:
    rows = decoded(lake.JSON)
    days = {(row["created_at"] - FIRST).days for row in rows}  # type: ignore[operator]
    assert days == set(range(lake.DAYS))
    nullable = {name for name in lake.COLUMNS if any(row[name] is None for row in rows)}
    assert nullable == {"campaign_id", "browser", "note", "score", "shipping", "paid_at"}


@pytest.mark.parametrize(
    ("columns", "other"),
    [
        (("id", "net"), {"id": [1, 2], "net": [Decimal("1.00"), None], "day": ["a", "b"]}),
        (("day",), {"id": [1, 2], "net": [Decimal("1.00"), Decimal("2.00")], "day": ["a", "a"]}),
    ],
)
def test_tables_that_differ_are_no_figure(tmp_path: Path, columns: tuple[str, ...], other: dict[str, object]) -> None:
    schema = pa.schema([("id", pa.int64()), ("net", pa.decimal128(12, 2)), ("day", pa.string())])
    first = {"id": [1, 2], "net": [Decimal("1.00"), Decimal("2.00")], "day": ["a", "b"]}
    for name, rows in (("first", first), ("again", first), ("other", other)):
        write_deltalake(tmp_path / name, pa.table(rows, schema=schema))
    sums = ColumnSums(columns)
    sums.check(tmp_path / "first")
    sums.check(tmp_path / "again")
    with pytest.raises(WrongCount, match="other"):
        sums.check(tmp_path / "other")


def test_ratios_are_those_of_median_times() -> None:
    runs = [
        MeasuredRun(way, "json", number, 1000, taken)
        for way, all_of in ((OURS, [2.0, 2.0, 9.0]), (SPARK, [8.0, 9.0, 7.0]), (lake.FLAT, [1.0, 1.0, 1.0]))
        for number, taken in enumerate(all_of, 1)
    ]
    found = lake.figures("json", runs, {way: lake.WrittenFiles(3, 1 << 20) for way in (OURS, SPARK, lake.FLAT)})
    assert found["ratios"] == {"vs_spark_decoded": 4.0, "vs_unpartitioned": 0.5}
    assert (found["files"][OURS], found["mib"][OURS]) == (3, 1.0)
