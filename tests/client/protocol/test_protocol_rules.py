"""The protocol's rules (rules.toml beside this file): each is there once, and a test is marked with it.

Needs the repository alone.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kseg.jobs.website.rules_page import page, sections, shown_by

TESTS = Path(__file__).parents[2]

# Numbers of that list that are not in use.
LEFT_OUT = {1, 34, 57, 67, 94, 95, 110, 197, 217, 256, 258, 260, 264}
NUMBERS = [number for number in range(1, 321) if number not in LEFT_OUT]
RULES = [(number, rule) for section in sections(TESTS) for number, rule in section.rules.items()]

marked = cache(lambda: shown_by(TESTS))


def test_every_rule_is_there_once_in_order() -> None:
    assert len(NUMBERS) == 307
    assert [number for number, _ in RULES] == NUMBERS


@pytest.mark.parametrize(("number", "rule"), RULES, ids=[number for number, _ in RULES])
def test_a_rule_is_shown_by_a_test(number: int, rule: str) -> None:
    assert len(rule) > 6
    assert marked().get(number), f"no test is marked with @pytest.mark.rule({number}): {rule}"


def test_every_mark_names_rules_that_are_there() -> None:
    assert sorted(set(marked()) - set(NUMBERS)) == []


def test_the_page_has_a_row_for_each_rule_with_its_tests() -> None:
    text = page(TESTS)
    for number, rule in RULES:
        assert f"\n| {number} | {rule} | `" in text
        assert all(f"`{test}`" in text for test in marked()[number])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("@pytest.mark.rule(7)\ndef helper(): ...", "test_x.py:1: a rule is marked on something else than a test"),
        ('@pytest.mark.rule("7 to 9")\ndef test_x(): ...', "'7 to 9' is neither a number nor a range"),
    ],
)
def test_a_mark_that_shows_nothing_is_an_error(tmp_path: Path, source: str, message: str) -> None:
    (tmp_path / "test_x.py").write_text(source)
    with pytest.raises(ValueError, match=message):
        shown_by(tmp_path)


def test_a_rule_without_a_test_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text('@pytest.mark.rule(2, "5-6")\ndef test_x(): ...')
    assert shown_by(tmp_path) == {number: ["test_x.py::test_x"] for number in (2, 5, 6)}
