"""docs/reference/protocol-rules.md: every rule is there once, and every test that it names exists.

Needs the repository alone.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2]
PAGE = TESTS.parent / "docs" / "reference" / "protocol-rules.md"

# Numbers of that list that are not in use.
LEFT_OUT = {1, 34, 57, 67, 94, 95, 110, 197, 217, 256, 258, 260, 264}
NUMBERS = [number for number in range(1, 321) if number not in LEFT_OUT]

ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
NOT_SHOWN = "not shown yet"


def rows() -> list[tuple[int, str, str]]:
    return [(int(number), rule.strip(), shown.strip()) for number, rule, shown in ROW.findall(PAGE.read_text())]


@cache
def names_in(path: str) -> frozenset[str]:
    """The names of a file's tests, as it stands: nothing is imported."""
    tree = ast.parse((TESTS / path).read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def test_every_rule_is_there_once_in_order() -> None:
    assert len(NUMBERS) == 307
    assert [number for number, _, _ in rows()] == NUMBERS


@pytest.mark.parametrize("row", rows(), ids=lambda row: str(row[0]))
def test_a_rule_names_its_tests_or_says_why_there_is_none(row: tuple[int, str, str]) -> None:
    _, rule, shown = row
    assert len(rule) > 6
    named = TEST.findall(shown)
    for path, name in named:
        assert (TESTS / path).is_file(), path
        assert name in names_in(path), f"{path} has no {name}"
    assert named or len(shown) > 40 or shown == NOT_SHOWN
    assert shown.count("::") == len(named), "a test is named in another form than `path::name`"


def test_the_page_tells_how_many_rules_are_not_shown() -> None:
    gaps = [number for number, _, shown in rows() if NOT_SHOWN in shown]
    told = re.search(r"^Not shown yet: (.*)\.$", PAGE.read_text(), re.MULTILINE)
    assert told is not None
    assert told[1] == (", ".join(map(str, gaps)) or "none")
