"""Every refusal, and every other error of a command, has an explanation that says what leads out of it."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from pathlib import Path
from string import Formatter
from typing import Any

import pytest

from kseg.etl.errors import KsegError, Refused
from kseg.etl.refusals.catalogue import CATALOGUE
from kseg.etl.refusals.entry import Case
from kseg.etl.refusals.kinds import KINDS
from kseg.etl.refusals.problems import PROBLEMS
from kseg.etl.run.failures import failure_note
from kseg.jobs.explanations.index import REFUSALS, explanations
from kseg.jobs.invocation.failures import TerminatedError
from refusal_sites import sites
from refusals import PARTS, refusal_codes

ROOT = Path(__file__).parents[1]
BASES = {"KsegError", "KafkaError", "LogFileError", "RecordFormatError"}


@functools.cache
def classes() -> list[tuple[str, str, set[str]]]:
    """Each class of the product: its name, its module, and the names of the classes that it is made from."""
    return [
        (
            node.name,
            ".".join(("kseg", *path.relative_to(ROOT).with_suffix("").parts)),
            set(map(ast.unparse, node.bases)),
        )
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
    ]


@functools.cache
def modules_of_errors() -> dict[str, list[str]]:
    """The modules that define each class of an error, by its name; a base class of many is none."""
    bases: dict[str, set[str]] = {}
    for name, _, its_bases in classes():
        bases.setdefault(name, set()).update(its_bases)
    kinds = {name for name in bases if descends(name, BASES, bases)}
    refusals = {"Refused", *(name for name in kinds if descends(name, {"Refused"}, bases))}
    found: dict[str, list[str]] = {}
    for name, module, its_bases in classes():
        if name in kinds - refusals and (its_bases & BASES or its_bases & kinds):
            found.setdefault(name, []).append(module)
    return found


def descends(name: str, roots: set[str], bases: dict[str, set[str]]) -> bool:
    return any(base in roots or (base != name and descends(base, roots, bases)) for base in bases.get(name, ()))


def test_every_code_has_its_way_out() -> None:
    assert list(REFUSALS) == sorted(REFUSALS), "in order"
    assert set(REFUSALS) == set(refusal_codes())


def placeholders(case: Case) -> set[str]:
    return {name for text in (case.message, case.remedy or "") for _, name, *_ in Formatter().parse(text) if name}


def test_a_place_that_raises_a_refusal_gives_what_its_sentences_name() -> None:
    """Its cases are in the catalogue; their placeholders are given, and nothing is given that none of them names."""
    for site in sites():
        assert site.says, site.place
        named = set().union(*(placeholders(CATALOGUE[code].by_name[case]) for code, case in site.says))
        assert named <= site.values | site.address, site.place
        assert site.values <= named, site.place


def test_every_refusal_of_the_product_is_of_the_catalogue() -> None:
    """`Refused(code, message)` is for the user's own functions."""
    made = re.compile(r"(?<!class )\bRefused\(")
    files = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    assert [str(path) for path in files if made.search(path.read_text())] == []


def test_every_case_of_the_catalogue_is_raised() -> None:
    raised = {says for site in sites() for says in site.says}
    assert raised == {(code, case) for code, entry in CATALOGUE.items() for case in entry.by_name}


def test_a_refusal_of_the_catalogue_has_its_sentences_filled_in() -> None:
    """With values and with the address, which alone travels as data."""
    error = Refused.of("files-missing", {"count": 2, "first": "a{b}"}, case="committed", table="/lake/t", run="r1")
    assert error.to_json() == {
        "kind": "Refused",
        "message": "2 data files that the run has committed were deleted, such as a{b}: the table cannot be read",
        "address": {"table": "/lake/t", "run": "r1"},
        "cause": None,
        "remedy": "`kseg repair JOB --abandon r1` removes them from the table; then run the job again. VACUUM only "
        "with `kseg maintain`, or with a retention longer than a run",
        "retriable": False,
        "code": "files-missing",
    }


def test_every_class_of_an_error_has_an_explanation() -> None:
    """One entry, by its name. A subclass of Refused has a code, and is explained by it."""
    assert set(KINDS) == set(modules_of_errors())
    assert {name: modules for name, modules in modules_of_errors().items() if len(modules) > 1} == {}
    assert len(KINDS) > 60


@pytest.mark.parametrize("name", KINDS)
def test_a_class_has_the_exit_code_of_its_entry(name: str) -> None:
    """`retriable` agrees, too: a scheduler that reads it and one that reads the exit code do the same."""
    [module] = modules_of_errors()[name]
    error: Any = getattr(importlib.import_module(module), name)
    code = KINDS[name].exit_code
    if issubclass(error, KsegError):
        assert error.exit_code == code
    assert error.retriable == code.meaning.retriable
    assert KINDS[name].printed is None or not issubclass(error, KsegError), "it has its remedy where it is raised"


def test_every_problem_of_a_status_has_an_explanation() -> None:
    """Codes of `kseg status` that are no errors of a command: those of `Problem("…")`, and of a stop."""
    tree = ast.parse((ROOT / "etl/operations/problems.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Problem"]
    codes = {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}
    stops = {failure_note(stop, "").code for stop in (KeyboardInterrupt(), TerminatedError())}
    assert set(PROBLEMS) == codes | stops
    assert list(PROBLEMS) == sorted(PROBLEMS), "in order"
    assert len(codes) == 3


def test_an_explanation_has_a_cause_and_a_remedy() -> None:
    for name, one in explanations().items():
        assert len(one.found) > 15, name
        assert len(one.remedy) > 10, name


def test_codes_are_found_in_every_form_of_the_source() -> None:
    """`Refused("…")`, `a if b else c`, an error class of its own, an incident of a table."""
    codes = refusal_codes()
    assert {"group-has-members", "offsets-absent", "account-failed", "data-lost", "table-restored"} <= set(codes)
