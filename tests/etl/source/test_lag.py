"""Answers that are out of date are asked for again, for a bounded time."""

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ExitCode, RetriableFailure
from kseg.etl.source import lag
from kseg.etl.source.lag import until_current

TP = TopicPartition("orders", 0)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch):
    monkeypatch.setattr(lag, "PAUSES", (0.0, 0.0))


def observing(*epochs):
    answers = iter(epochs)
    return lambda: next(answers)


def behind(epoch):
    return TP if epoch < 5 else None


def test_the_first_answer_that_is_not_behind_counts():
    assert until_current(observing(5), behind) == 5
    assert until_current(observing(4, 4, 6), behind) == 6


def test_brokers_that_stay_behind_are_asked_again_later():
    with pytest.raises(RetriableFailure, match="older leader epoch") as failure:
        until_current(observing(4, 4, 4), behind)
    assert failure.value.exit_code == ExitCode.RETRIABLE
    assert failure.value.address == {"topic": "orders", "partition": 0}


def test_an_incomplete_answer_is_asked_for_again_and_accepted_in_the_end():
    assert until_current(observing(6, 5), behind, lambda epoch: epoch == 6) == 5
    assert until_current(observing(6, 6, 6), behind, lambda epoch: epoch == 6) == 6
    with pytest.raises(RetriableFailure):
        until_current(observing(6, 6, 4), behind, lambda epoch: epoch == 6)
