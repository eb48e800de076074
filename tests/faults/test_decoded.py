"""Dead letters are counted by their runs: each replacing run has one, and no second one of a run is overlooked."""

from __future__ import annotations

from typing import Any

import pytest

from fault_suite.decoded import standing
from fault_suite.journal import digest

LETTER: Any = (digest(b"k", b"bad"), 1000, ())
OTHER: Any = (digest(b"k", b"wrong"), 1000, ())


@pytest.mark.parametrize(
    ("runs", "count"),
    [
        (["run"], 1),
        (["run", "replace-1"], 1),
        (["run", "replace-1", "replace-2"], 1),
        (["replace-1"], 1),
        (["replace-1", "replace-2"], 1),
        (["run", "append"], 2),
        (["replace-1", "append"], 2),
        # what is wrong
        (["run", "run"], 2),
        (["run", "another run", "replace-1"], 2),
        (["run", "replace-1", "replace-1"], 2),
        (["replace-1", "replace-1"], 2),
        (["run", "append", "append"], 3),
    ],
)
def test_letters_of_an_address(runs: list[str], count: int) -> None:
    letters = [(run, LETTER) for run in runs]
    assert standing(letters, {"replace-1", "replace-2"}, {"append"}) == [LETTER] * count


def test_a_second_letter_with_another_content_is_kept() -> None:
    assert standing([("run", LETTER), ("replace-1", LETTER), ("replace-1", OTHER)], {"replace-1"}, set()) == [
        LETTER,
        OTHER,
    ]
