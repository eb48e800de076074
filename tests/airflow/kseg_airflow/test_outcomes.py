"""Exit codes as what Airflow does next, and the words that a person reads."""

from __future__ import annotations

import pytest

from kseg_airflow.compat import AirflowException, AirflowFailException
from kseg_airflow.outcomes import Outcome, failure_of

ERROR = {"kind": "Refused", "message": "the topic was made anew", "code": "topic-recreated", "remedy": "look at it"}


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (Outcome(1, {"error": {"kind": "X", "message": "m"}}), False),
        (Outcome(2, {"error": {"kind": "ConfigurationError", "message": "m"}}), False),
        (Outcome(3, {"error": ERROR}), False),
        (Outcome(4, {"error": {"kind": "BrokerUnavailable", "message": "m"}}), True),
        (Outcome(5, {"error": {"kind": "AnotherRunActive", "message": "m"}}), True),
        (Outcome(1, {"error": {"kind": "Terminated", "message": "terminated"}}), True),
        (Outcome(127), False),
        (Outcome(137), True),
        (Outcome(None), True),
    ],
)
def test_only_what_may_pass_is_tried_again(outcome: Outcome, again: bool) -> None:
    failure = failure_of(outcome, "kseg ingest orders.yaml")
    assert isinstance(failure, AirflowException)
    assert isinstance(failure, AirflowFailException) is not again


def test_a_failure_tells_what_where_and_what_to_do() -> None:
    error = {**ERROR, "address": {"topic": "orders", "partition": 3}}
    told = str(failure_of(Outcome(3, {"error": error}), "kseg ingest orders.yaml", log="/runs/driver.log"))
    assert told == (
        "kseg ingest orders.yaml: the topic was made anew (topic-recreated) [topic=orders, partition=3]\n"
        "do: look at it\n"
        "The driver's log: /runs/driver.log"
    )


def test_the_log_with_the_tracebacks_is_named() -> None:
    document = {"error": {"kind": "TaskFailed", "message": "m"}, "exit_code": 1, "log": "/cache/logs/ingest-1.log"}
    told = str(failure_of(Outcome(1, document), "kseg ingest orders.yaml"))
    assert "/cache/logs/ingest-1.log" in told


def test_every_fault_of_a_job_file_is_told() -> None:
    faults = [
        {"path": "sink", "message": "is missing", "remedy": "add it", "line": None},
        {"path": "source.topics", "message": "is empty", "remedy": None, "line": 4},
    ]
    error = {"kind": "ConfigurationError", "message": "2 errors in the configuration", "faults": faults}
    told = str(failure_of(Outcome(2, {"error": error}), "kseg ingest orders.yaml"))
    assert "  sink: is missing\n    do: add it\n  source.topics (line 4): is empty" in told
