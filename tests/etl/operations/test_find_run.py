"""A run is found by a unique part of its id."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.errors import Refused
from kseg.etl.operations.find_run import find_run

IDS = ["4be1f00c52-16-9a3e11d0", "4be1f00c52-17-0c44a1f2", "4be1f00c52-8f3a09c27d5ab1e46c90", "3f9c46bd" + "0" * 24]
RUNS = {run_id: SimpleNamespace(run_id=run_id, mode="incremental", phase="finished") for run_id in IDS}
STATE: Any = SimpleNamespace(runs=RUNS, unfinished_runs=lambda: iter([RUNS[IDS[1]]]))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (IDS[0], 0),
        ("4be1f00c52-17", 1),
        ("16", 0),
        ("17-0c44", 1),
        ("8f3a", 2),
        ("3f9c46bd", 3),
    ],
)
def test_by_its_id_by_how_that_begins_and_by_what_follows_the_mark(given: str, found: int) -> None:
    assert find_run(STATE, given).run_id == IDS[found]


def test_what_fits_several_runs_is_refused_and_lists_them() -> None:
    for given, several in (("4be1f00c52", IDS[:3]), ("1", IDS[:2])):
        with pytest.raises(Refused) as caught:
            find_run(STATE, given)
        assert caught.value.code == "ambiguous-run"
        assert all(run_id in str(caught.value) for run_id in several)
        assert IDS[3] not in str(caught.value)


@pytest.mark.parametrize("given", ["", "0c44a1f2", "ffff", "-17"])
def test_what_fits_none_is_refused(given: str) -> None:
    with pytest.raises(Refused) as caught:
        find_run(STATE, given)
    assert caught.value.code == "no-such-run"
    assert IDS[1] in str(caught.value.remedy)
