"""docs/reference/protocol-rules.md: the protocol's rules, and the tests that show each of them.

    tests/client/protocol/rules.toml          sections of rules, each with its number
    @pytest.mark.rule(7, "13-17")             on a test: it shows these rules

The tests' files are parsed, not imported: the page is built without what tests need.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

_HEAD: Final = """\
# The protocol's rules, and the tests that show them

What Kafka's protocol guides say, rule by rule, in our own words. The numbers are those of the list that the guides were
read into; some are not in use. `make docs` makes this page: the rules are in `tests/client/protocol/rules.toml`, and
each test that shows a rule is marked with its number (`@pytest.mark.rule`). A rule without a test fails
`tests/client/protocol/test_protocol_rules.py`. A test's path is relative to `tests/`.

Two tests cover whole definitions. `test_a_message_is_defined_as_in_kafka` compares each message in each version with
the JSON in Kafka's jars (4.3.1, and 3.9.2 for what 4.3.1 has dropped);
`test_bytes_are_the_ones_that_kafka_writes_and_reads` compares its bytes with Java's classes, both ways. On live
brokers, `test_each_version_does_what_it_means` (old releases) and `test_an_api_means_what_it_should` (the newest one)
call each version and check its answer.
"""
_MARK: Final = "mark.rule("


class RuleSection(NamedTuple):
    """Rules by number, under one title."""

    title: str
    rules: dict[int, str]


def page(tests: Path) -> str:
    """The whole page, from the folder of the tests."""
    shown = shown_by(tests)
    lines = [_HEAD]
    for section in sections(tests):
        lines.append(f"\n## {section.title}\n\n| # | rule | shown by |\n| --- | --- | --- |\n")
        for number, rule in section.rules.items():
            lines.append(f"| {number} | {rule} | {'<br>'.join(f'`{test}`' for test in shown.get(number, ()))} |\n")
    return "".join(lines)


def sections(tests: Path) -> list[RuleSection]:
    """All rules, in their order."""
    document: dict[str, Any] = tomllib.loads((tests / "client" / "protocol" / "rules.toml").read_text())
    return [
        RuleSection(section["title"], {int(number): rule for number, rule in section["rules"].items()})
        for section in document["sections"]
    ]


def shown_by(tests: Path) -> dict[int, list[str]]:
    """The tests that are marked with a rule (`path::name`), by its number.

    Raises ValueError: a mark that is on no test, or that has something else than numbers in it.
    """
    found: dict[int, list[str]] = {}
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if _MARK not in text:
            continue
        name = path.relative_to(tests).as_posix()
        for node in ast.walk(ast.parse(text)):
            for number in _marked(node, name):
                assert isinstance(node, ast.FunctionDef)
                found.setdefault(number, []).append(f"{name}::{node.name}")
    return found


def _marked(node: ast.AST, file: str) -> Iterator[int]:
    """The numbers in the marks of a function or a class."""
    for decorator in getattr(node, "decorator_list", ()):
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.rule":
            if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
                raise ValueError(f"{file}:{decorator.lineno}: a rule is marked on something else than a test")
            for argument in decorator.args:
                yield from _numbers(ast.literal_eval(argument), f"{file}:{decorator.lineno}")


def _numbers(written: Any, where: str) -> Iterator[int]:
    """`7` or `"13-17"`."""
    if isinstance(written, int):
        yield written
        return
    try:
        first, last = map(int, str(written).split("-"))
    except ValueError:
        raise ValueError(f"{where}: {written!r} is neither a number nor a range such as '13-17'") from None
    yield from range(first, last + 1)
