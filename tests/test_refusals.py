"""Every refusal, and every other error of a command, has an explanation that says what leads out of it."""

from __future__ import annotations

import ast
from pathlib import Path
from string import Formatter

from kseg.etl.errors import Refused
from kseg.etl.refusals.catalogue import CATALOGUE
from kseg.etl.refusals.entry import Case
from kseg.etl.run.failures import failure_note
from kseg.jobs.explanations.index import REFUSALS, explanations
from kseg.jobs.explanations.kinds import KINDS
from kseg.jobs.explanations.problems import PROBLEMS
from kseg.jobs.invocation.failures import TerminatedError
from refusal_sites import sites
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


def placeholders(case: Case) -> set[str]:
    return {name for text in (case.message, case.remedy or "") for _, name, *_ in Formatter().parse(text) if name}


def test_a_place_that_raises_a_refusal_gives_what_its_sentences_name() -> None:
    """Its cases are in the catalogue; their placeholders are given, and nothing is given that none of them names."""
    for site in sites():
        assert site.says, site.place
        named = set().union(*(placeholders(CATALOGUE[code].by_name[case]) for code, case in site.says))
        assert named <= site.values | site.address, site.place
        assert site.values <= named, site.place


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
