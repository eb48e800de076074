"""Every refusal, and every other error of a command, has an explanation that says what leads out of it."""

from __future__ import annotations

import ast
from pathlib import Path

from kseg.etl.run.failures import failure_note
from kseg.jobs.explanations.index import explanations
from kseg.jobs.explanations.kinds import KINDS
from kseg.jobs.explanations.problems import PROBLEMS
from kseg.jobs.explanations.refusals import REFUSALS
from kseg.jobs.invocation.failures import TerminatedError
from refusals import PARTS, refusal_codes

ROOT = Path(__file__).parents[1]
BASES = {"KsegError", "KafkaError", "LogFileError", "RecordFormatError"}


def bases_by_class() -> dict[str, set[str]]:
    """The names of the classes that each class of the product is made from."""
    found: dict[str, set[str]] = {}
    for part in PARTS:
        for path in (ROOT / part).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, set()).update(map(ast.unparse, node.bases))
    return found


def descends(name: str, roots: set[str], bases: dict[str, set[str]]) -> bool:
    return any(base in roots or (base != name and descends(base, roots, bases)) for base in bases.get(name, ()))


def test_every_code_has_its_way_out() -> None:
    assert list(REFUSALS) == sorted(REFUSALS), "in order"
    assert set(REFUSALS) == set(refusal_codes())


def test_every_class_of_an_error_has_an_explanation() -> None:
    """A subclass of Refused has a code, and is explained by it."""
    bases = bases_by_class()
    kinds = {name for name in bases if descends(name, BASES, bases)}
    refusals = {"Refused", *(name for name in kinds if descends(name, {"Refused"}, bases))}
    assert set(KINDS) == kinds - refusals
    assert len(kinds) > 60


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
