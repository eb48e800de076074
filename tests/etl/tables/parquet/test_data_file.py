"""What a store is asked for one data file."""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.tables.parquet.data_file import DataFile, WriterOptions
from kseg.etl.tables.parquet.statistics import StatsCollector, StatsSpec
from kseg.etl.tables.parquet.storage import TableLocation

ROWS = pa.record_batch({"n": [1, 2, 3]})


def write(place: str, path: str, rows: pa.RecordBatch = ROWS, options: dict[str, str] | None = None) -> int:
    stats = StatsCollector(StatsSpec.of(rows.schema, ()), rows.schema)
    file = DataFile(TableLocation.of(place, options).open_for_writing(), path, rows.schema, stats, WriterOptions())
    file.append(rows)
    return file.close(place, {}).rows


def test_a_file_in_a_partition_makes_no_folders_in_a_bucket(s3: Any) -> None:
    """Each was an empty object for every folder above each file, one after the other."""
    assert write("s3://logs/lake/orders", "day=2026-01-01/a.parquet") == 3
    assert write("s3://logs/lake/orders", "b.parquet") == 3
    asked = Counter((one.path.rpartition("/")[2], one.method) for one in s3.asked)
    within = sorted(method for (name, method) in asked.elements() if name == "a.parquet")
    assert within == sorted(method for (name, method) in asked.elements() if name == "b.parquet")
    assert {name for name, _ in asked} == {"a.parquet", "b.parquet"}


@pytest.mark.parametrize("by", ["environment", "options"])
def test_a_small_file_is_put_in_one_request_and_a_large_one_in_parts(s3: Any, by: str) -> None:
    options = {"allow_http": "true", **s3.options} if by == "options" else None
    large = pa.record_batch({"n": [os.urandom(20_000_000)]})
    assert write("s3://logs/lake/orders", "small.parquet", options=options) == 3
    assert write("s3://logs/lake/orders", "large.parquet", large, options) == 1
    sent = Counter((one.path.rpartition("/")[2], one.method) for one in s3.asked if one.method in ("PUT", "POST"))
    assert (sent["small.parquet", "PUT"], sent["small.parquet", "POST"]) == (1, 0)
    assert (sent["large.parquet", "PUT"] > 1, sent["large.parquet", "POST"]) == (True, 2)


def test_a_file_in_a_partition_has_its_folder_on_a_disk(tmp_path: Any) -> None:
    assert write(str(tmp_path), "day=2026-01-01/a.parquet") == 3
    assert (tmp_path / "day=2026-01-01" / "a.parquet").is_file()
