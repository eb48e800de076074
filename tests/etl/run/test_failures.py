"""The error of a run, as its note in the ledger has it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.run.failures import failure_note, record_failure
from kseg.etl.spark.spark_errors import SparkFailure
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.jobs.invocation.failures import TerminatedError


@pytest.mark.parametrize(
    ("stop", "code", "words"),
    [(TerminatedError(), "Terminated", "SIGTERM"), (KeyboardInterrupt(), "Interrupted", "Ctrl-C")],
)
def test_a_stop_is_noted_as_one(stop: BaseException, code: str, words: str) -> None:
    note = failure_note(stop, "run")
    assert (note.run_id, note.code, note.remedy) == ("run", code, None)
    assert words in note.message


def test_an_error_of_a_call_that_a_stop_has_interrupted_is_the_stop() -> None:
    """Py4J raises an error of its own while a signal's is handled."""

    def interrupted_call() -> None:
        try:
            raise TerminatedError
        finally:
            raise ConnectionError("answer from Java side is empty")

    with pytest.raises(ConnectionError) as caught:
        interrupted_call()
    assert failure_note(caught.value, "").code == "Terminated"


def test_an_unexpected_error_is_noted_by_its_class_alone() -> None:
    note = failure_note(ValueError("hunter2"), "")
    assert note.code == "ValueError"
    assert "hunter2" not in note.message


def test_of_configuration_errors_the_faults_and_their_remedies_are_noted() -> None:
    """`kseg status` advised to run the job again, which failed again: the remedy was in the faults."""
    error = IncompatibleSchema("/lake/orders", [("id", "is string", "cast it")], schemas="id  string  bigint")
    note = failure_note(error, "run")
    assert note.message == "sink.id: is string (table=/lake/orders)"
    assert note.remedy == "cast it"
    assert failure_note(ConfigurationError("it is wrong"), "").remedy == "correct the job file, then run it again"
    faults = [Diagnostic("a", "is wrong", "mend a"), Diagnostic("b", "is wrong"), Diagnostic("c", "is wrong", "mend a")]
    note = failure_note(ConfigurationError(faults), "")
    assert (note.message, note.remedy) == ("a: is wrong; b: is wrong; c: is wrong", "mend a")


def test_an_error_is_recorded_without_the_secrets_of_the_job() -> None:
    """`kseg status` and `kseg runs` show it to whoever may read the ledger."""
    recorded: list[Any] = []

    def transition(decide: Callable[[Any], Any], deadline: float) -> None:
        recorded.extend(decide(SimpleNamespace(unfinished=lambda _: None)))

    error = SparkFailure("Spark failed: no login with hunter2", remedy="look for hunter2")
    record_failure(cast("Any", SimpleNamespace(chain="c", transition=transition)), error, iter(["hunter2"]))
    [note] = recorded
    assert (note.message, note.remedy) == ("Spark failed: no login with ***", "look for ***")
