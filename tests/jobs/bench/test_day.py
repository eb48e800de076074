"""What is told of a day's files is what they are, and records are late as they should be. The day itself is run in
`test_measuring_ways.py`."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random

import pyarrow as pa
from deltalake import write_deltalake

from kseg.jobs.bench import day, lake

MB = 1_000_000


def test_shares_are_those_of_bytes_by_the_size_of_files() -> None:
    found = day.files_of([64 * MB, 16 * MB, 15 * MB, 5 * MB - 1, 1], ["a", "a", "b", "b", "b"])
    assert (found["files"], found["mib"]) == (5, 95.4)
    assert found["bytes_in_files"] == {"below_1_mb": 0.0, "1_to_16_mb": 0.2, "16_to_64_mb": 0.16, "of_64_mb": 0.64}
    assert found["in_largest_of_its_day"] == 0.79


def test_one_record_in_twenty_is_late_and_few_are_by_many_days() -> None:
    random = Random(1)
    days = Counter(day.days_late(random) for _ in range(100_000))
    assert 0.045 < 1 - days[0] / days.total() < 0.055
    assert days[1] > days[2] > days[3] > 0
    assert max(days) < lake.DAYS


def test_a_table_is_described_by_its_files_and_not_by_those_that_it_left(tmp_path: Path) -> None:
    for mode, days in (("append", ["2026-01-01", "2026-01-02"]), ("overwrite", ["2026-01-01", "2026-01-03"])):
        rows = {lake.PARTITION: pa.array(days).cast(pa.date32()), "net": pa.array([Decimal(1), Decimal(2)])}
        write_deltalake(tmp_path, pa.table(rows), mode=mode, partition_by=[lake.PARTITION])  # type: ignore[arg-type]
    found = day.look(tmp_path)
    assert (found["rows"], found["sum"], found["files"], found["log_files"]) == (2, "3", 2, 2)
    assert day.added_up(tmp_path, date(2026, 1, 3)) == 2
