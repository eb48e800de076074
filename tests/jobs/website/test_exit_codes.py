"""The exit codes have one table; files, pages and classes that name them agree with it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

import kseg
from kseg.etl import errors
from kseg.etl.errors import ExitCode, KsegError
from kseg.jobs.cli import cli
from kseg.jobs.website import errors_page
from kseg.jobs.website.exit_codes import for_airflow, views

ROOT = Path(__file__).parents[3]


def test_files_that_are_made_from_the_exit_codes_are_current() -> None:
    """A new code is retried by Airflow, and is in the tables of README.md and of the guide to monitoring."""
    made = dict(views())
    assert {path.name for path in made} == {"exit_codes.py", "README.md", "monitoring.md"}
    for path, text in made.items():
        assert path.read_text() == text, "stale: python -m kseg.jobs.website.exit_codes"


def test_airflow_retries_what_a_retry_may_help() -> None:
    found: dict[str, object] = {}
    exec(for_airflow(), found)
    retried = {code for code in ExitCode if code.meaning.retriable}
    assert found["RETRIED"] == retried >= {4, 5}
    assert {name: found[name] for name in ExitCode.__members__} == dict(ExitCode.__members__)


def test_the_drawn_tree_of_errors_has_their_exit_codes() -> None:
    drawn = re.findall(r"^[ │├└─]*(\w+) +(\d)  ", errors.__doc__ or "", re.MULTILINE)
    assert {name: int(code) for name, code in drawn} == {
        cls.__name__: cls.exit_code
        for cls in vars(errors).values()
        if isinstance(cls, type) and issubclass(cls, KsegError)
    }


def test_the_page_of_the_python_api_has_the_exit_codes_of_its_errors() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", (ROOT / "docs/reference/python-api.md").read_text(), re.MULTILINE)
    public = {name: value for name in kseg.__all__ if isinstance(value := getattr(kseg, name), type)}
    classes = {name: cls for name, cls in public.items() if issubclass(cls, KsegError)}
    assert {name: int(code) for name, code in rows} == {name: cls.exit_code for name, cls in classes.items()}


@pytest.mark.parametrize("code", [code for code in ExitCode if code])
def test_an_exit_code_is_explained(code: ExitCode) -> None:
    done = CliRunner().invoke(cli, ["explain", str(code.value)])
    assert done.exit_code == 0
    assert code.meaning.found in done.output
    assert (code.meaning.remedy or "kseg explain CODE") in done.output
    assert f"\n| {code.value} | {code.meaning.found} |" in errors_page.page()
