"""The table in docs/reference/types.md: what is declared is the Arrow type that it says."""

from __future__ import annotations

from pathlib import Path

from kseg.segment_reader.payload.ddl import PRIMITIVES, parse_type
from kseg.segment_reader.payload.decoder import Status

PAGE = (Path(__file__).parents[4] / "docs" / "reference" / "types.md").read_text()
SECTION = PAGE.partition("\n## JSON\n")[2].partition("\n## ")[0]


def test_declared_types_are_the_arrow_types_of_the_table() -> None:
    table = SECTION.partition("| declared |")[2].partition("\n\n")[0]
    rows = [line.split("|")[1:3] for line in table.splitlines()[2:]]
    written = {declared.strip(" `"): arrow.strip(" `") for declared, arrow in rows}
    assert {declared: str(parse_type(declared)) for declared in written} == written
    known = {parse_type(declared) for declared in written}
    assert set(PRIMITIVES.values()) <= known


def test_other_words_of_types_are_named() -> None:
    for word in PRIMITIVES:
        assert f"`{word}`" in SECTION


def test_statuses_are_those_that_there_are() -> None:
    table = SECTION.partition("| status |")[2].partition("\n\n")[0]
    named = {line.split("`")[1] for line in table.splitlines()[2:]}
    assert named <= {each.name for each in Status}
