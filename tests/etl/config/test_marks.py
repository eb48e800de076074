"""Each field of the job file says whether it decides rows; the configuration's hash and its documentation follow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.marks import (
    DecidesRows,
    DecidesRowsIfGiven,
    HashedUnordered,
    Mark,
    NotHashed,
    config_hash,
    marks_below,
)
from kseg.etl.config.sections import STEP_KINDS, Sink, Source
from kseg.etl.config.values import Section

MARKS = dict(marks_below(Job))
OF_0_1_0: dict[str, bool] = json.loads((Path(__file__).parent / "data" / "field_decides.json").read_text())
PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"


def test_every_field_has_a_mark() -> None:
    assert [place for place, mark in MARKS.items() if mark is None] == []


@pytest.mark.parametrize(("place", "decides"), [(p, d) for p, d in OF_0_1_0.items() if "{" not in p])
def test_fields_of_0_1_0_have_the_marks_that_its_hash_had(place: str, decides: bool) -> None:
    always = (Mark.DECIDES_ROWS, Mark.HASHED_UNORDERED)
    assert (MARKS[place] in always) == decides


def test_a_field_that_0_1_0_did_not_have_changes_no_hash_by_its_default() -> None:
    new = MARKS.keys() - OF_0_1_0.keys() - {f"transform[].{kind}" for kind in STEP_KINDS}  # a step has no default
    assert {place for place in new if MARKS[place] in (Mark.DECIDES_ROWS, Mark.HASHED_UNORDERED)} == set()


class Inner(Section):
    kept: DecidesRows[int] = 1
    left_out: NotHashed[int] = 1


class Before(Section):
    names: HashedUnordered[tuple[str, ...] | None] = None
    parts: DecidesRows[dict[str, Inner] | None] = None
    listed: DecidesRows[tuple[Inner, ...]] = ()


class After(Before):
    added: DecidesRowsIfGiven[Inner | None] = None


class Unmarked(Before):
    added: int = 1


def test_the_hash_is_made_of_what_decides_rows() -> None:
    one = Before(names=("b", "a"), parts={"p": Inner()}, listed=(Inner(left_out=5),))
    same = Before(names=("a", "b"), parts={"p": Inner(left_out=2)}, listed=(Inner(),))
    assert config_hash(one) == config_hash(same)
    assert config_hash(one) != config_hash(same.model_copy(update={"parts": {"p": Inner(kept=2)}}))
    assert config_hash(one) != config_hash(same.model_copy(update={"listed": (Inner(kept=2),)}))
    assert config_hash(one) != config_hash(same.model_copy(update={"names": None}))


def test_an_added_field_counts_once_it_is_given() -> None:
    assert config_hash(After(names=("a",))) == config_hash(Before(names=("a",)))
    assert config_hash(After(added=Inner())) != config_hash(Before())
    assert config_hash(After(added=Inner())) == config_hash(After(added=Inner(left_out=7)))


def test_a_field_without_a_mark_has_no_place_in_a_hash() -> None:
    with pytest.raises(ValueError, match=r"Unmarked\.added has no mark"):
        config_hash(Unmarked())


def test_the_page_names_what_is_left_out_of_the_hash() -> None:
    text = PAGE.read_text()
    paragraph = re.search(
        r"^The ledger keeps a hash of the keys that decide which rows land [\w ]+: (.*?)(?:\n\n|\Z)", text, re.M | re.S
    )
    assert paragraph
    told = {
        section: {*re.findall(r"`(\w+)`", without)}
        for section, without in re.findall(r"`(\w+)` \(without (.*?)\)", paragraph[1], re.S)
    }
    left_out = {
        name: {key for key, mark in marks_below(model) if "." not in key and mark is Mark.NOT_HASHED}
        for name, model in (("source", Source), ("sink", Sink))
    }
    assert told == left_out
