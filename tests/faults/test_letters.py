"""Rows and dead letters of one record: a redriven one counts once, and what landed twice is not overlooked."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fault_suite.journal import digest
from fault_suite.letters import BAD, LEVELS, due, read, value

ROW: Any = (digest(b"k", b"value"), 1000, ())


@pytest.mark.parametrize(
    ("rows", "letters", "count"),
    [
        (["run"], [], 1),
        ([], ["run"], 1),
        (["redrive"], ["run"], 1),
        # what is wrong
        (["run", "run"], [], 2),
        (["redrive", "redrive-2"], ["run"], 2),
        (["run"], ["run"], 2),
        ([], ["run", "run"], 2),
        ([], ["run", "another"], 2),
    ],
)
def test_rows_and_letters_of_an_address(rows: list[str], letters: list[str], count: int) -> None:
    assert due([(run, ROW) for run in rows], [(run, ROW) for run in letters]) == [ROW] * count


def test_some_values_are_none_and_levels_are_of_all_kinds() -> None:
    choice = random.Random(7)
    found = [read(value(choice)) for _ in range(2000)]
    assert 0 < sum(one is None for one in found) < 2000 * 3 * BAD
    assert {one[1] for one in found if one is not None} == set(range(LEVELS))
