"""Errors cross process borders and exit codes are public: both are pinned here."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime

import pytest

from kseg.etl.errors import (
    AnotherRunActive,
    ConfigurationError,
    Diagnostic,
    KsegError,
    Refused,
    RetriableFailure,
    listed,
)

CASES = [
    (KsegError("odd", remedy="look", topic="orders", partition=3, offset=None), 1, False),
    (ConfigurationError([Diagnostic("a.b", "wrong", "fix", 3), Diagnostic("c", "worse")], file="job.yaml"), 2, False),
    (ConfigurationError("cannot be read"), 2, False),
    (Refused("topic-recreated", "another id", topic="orders"), 3, False),
    (RetriableFailure("away", broker=1), 4, True),
    (AnotherRunActive("busy", owner="host/1", until=datetime(2026, 1, 1, tzinfo=UTC), job="orders"), 5, True),
]


@pytest.mark.parametrize(("error", "exit_code", "retriable"), CASES, ids=lambda v: type(v).__name__)
def test_exit_codes_are_the_public_ones(error: KsegError, exit_code: int, retriable: bool) -> None:
    assert error.exit_code == exit_code
    assert error.retriable is retriable


@pytest.mark.parametrize("error", [case[0] for case in CASES], ids=lambda e: type(e).__name__)
def test_pickling_keeps_every_attribute(error: KsegError) -> None:
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is type(error)
    assert back.__dict__ == error.__dict__
    assert str(back) == str(error)
    assert back.to_json() == error.to_json()


class OddError(KsegError):
    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"{first} against {second}", partition=first)
        self.second = second


def test_a_subclass_with_its_own_constructor_pickles_without_help() -> None:
    back = pickle.loads(pickle.dumps(OddError(1, 2)))
    assert isinstance(back, OddError)
    assert (back.second, back.address, str(back)) == (2, {"partition": 1}, "1 against 2 (partition=1)")


def test_an_absent_address_is_left_out() -> None:
    assert KsegError("m", topic="t", partition=None).address == {"topic": "t"}


def test_the_json_of_an_error_tells_its_cause() -> None:
    try:
        try:
            raise OSError("disk full")
        except OSError as cause:
            raise RetriableFailure("storage away", path="/lake") from cause
    except RetriableFailure as error:
        told = error.to_json()
    assert told["cause"] == "OSError: disk full"
    assert told["address"] == {"path": "/lake"}
    assert told["retriable"] is True


def test_a_single_fault_is_the_first_line_with_what_to_do() -> None:
    """All that Spark shows of an error of `format("kseg")`."""
    assert str(ConfigurationError.of("topics", "is missing", "name them")) == "topics: is missing — name them"
    assert (
        str(ConfigurationError("cannot be used", remedy="fix it", file="a.yaml"))
        == "cannot be used — fix it (file=a.yaml)"
    )


def test_every_fault_is_in_the_text() -> None:
    text = str(ConfigurationError([Diagnostic("a.b", "wrong", "fix", 3), Diagnostic("", "worse")], file="job.yaml"))
    assert "2 errors in the configuration (file=job.yaml)" in text
    assert "a.b (line 3): wrong — fix" in text
    assert text.endswith("\n  worse")


@pytest.mark.parametrize(
    ("items", "text"),
    [([], ""), (["a"], "a"), ([1, 2], "1, 2"), ([1, 2, 3], "1, 2 and 1 more"), (range(12), "0, 1 and 10 more")],
)
def test_a_list_says_how_many_of_its_items_it_leaves_out(items: list[object], text: str) -> None:
    assert listed(items, most=2) == text
