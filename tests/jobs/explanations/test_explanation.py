"""Explanations: printed by `kseg explain`, named by every message, and pages of the site."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from kseg.client.errors import BrokerUnavailable
from kseg.etl.errors import ConfigurationError, Refused
from kseg.jobs.cli import cli
from kseg.jobs.explanations.index import explanation_of, explanations, plain
from kseg.jobs.invocation.failures import failure_of, print_failure
from kseg.jobs.website.errors_page import page


def explain(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["explain", *arguments])
    return done.exit_code, done.output


def test_a_code_and_a_kind_are_explained() -> None:
    code, output = explain("table-missing")
    assert code == 0
    assert "a table that rows have landed in is gone" in output
    assert "--accept-table TABLE" in output
    assert "no broker could be reached" in explain("BrokerUnavailable")[1]


def test_a_misspelt_code_is_found() -> None:
    code, output = explain("table-mising")
    assert code == 2
    assert "table-missing" in output


def test_all_are_listed_without_a_code() -> None:
    document = json.loads(explain("--json")[1])
    assert [one["code"] for one in document["errors"]] == list(explanations())


@pytest.mark.parametrize(
    ("error", "name"),
    [(Refused("table-missing", "it is gone"), "table-missing"), (BrokerUnavailable("none"), "BrokerUnavailable")],
)
def test_a_message_names_its_explanation(error: Exception, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_failure(failure_of(error), debug=False)
    assert f"more: kseg explain {name}\n" in capsys.readouterr().err
    assert explanation_of(name) is not None


def test_errors_that_say_all_themselves_name_none(capsys: pytest.CaptureFixture[str]) -> None:
    print_failure(failure_of(ConfigurationError.of("sink", "wrong", "do it right")), debug=False)
    print_failure(failure_of(ValueError("unexpected")), debug=False)
    assert "more:" not in capsys.readouterr().err


def test_links_are_paths_on_a_terminal() -> None:
    assert plain("see [here](../guides/json.md#x) and [below](ledger.md)") == (
        "see here (docs/guides/json.md#x) and below (docs/reference/ledger.md)"
    )


def test_the_page_has_an_anchor_for_each() -> None:
    text = page()
    assert all(f"\n### {name}\n" in text for name in explanations())
