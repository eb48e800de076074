"""Large numbers for people: three digits and a prefix, in progress, tables and pictures."""

from __future__ import annotations

import pytest

from kseg.jobs.progress.pace import human
from kseg.jobs.report.charts import seconds_label, short
from kseg.jobs.report.view import size


@pytest.mark.parametrize(
    ("number", "told"),
    [
        *((0, "0"), (950, "950"), (999, "999"), (999.6, "1k"), (12_345, "12.3k"), (999_499, "999k"), (999_500, "1M")),
        *((999_999, "1M"), (4.5e6, "4.5M"), (999_999_999, "1G"), (1e9, "1G"), (2.5e13, "25T")),
    ],
)
def test_counts_never_come_as_powers_of_ten(number: float, told: str) -> None:
    assert human(number) == told
    assert short(number) == told


def test_bytes_and_axes_have_the_same_digits() -> None:
    assert [size(number) for number in (None, 0, 999, 1_000, 999_999_999)] == ["–", "0 B", "999 B", "1 kB", "1 GB"]
    assert [short(number) for number in (0.25, -1500)] == ["0.25", "-1.5k"]


def test_the_axis_of_a_long_run_is_in_hours() -> None:
    assert [seconds_label(seconds) for seconds in (2.5, 119, 120, 3600, 7200, 72_000)] == [
        "2.5 s", "119 s", "2 min", "60 min", "2 h", "20 h",
    ]  # fmt: skip
