"""Answers that are out of date are asked for again, for a bounded time."""

import pytest

from kseg.client.errors import AuthorizationFailed, KafkaError, LeaderNotAvailable, UnknownTopic
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ExitCode, RetriableFailure
from kseg.etl.source import lag
from kseg.etl.source.lag import until_current, until_known

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


UNKNOWN = UnknownTopic("the broker does not know it", retriable=True)


def answering(*answers):
    left = iter(answers)

    def ask():
        answer = next(left)
        if isinstance(answer, KafkaError):
            raise answer
        return answer

    return ask


def test_a_topic_that_a_broker_does_not_know_yet_is_asked_for_again():
    assert until_known(answering(UNKNOWN, LeaderNotAvailable("no leader"), 5)) == 5
    with pytest.raises(UnknownTopic):
        until_known(answering(UNKNOWN, UNKNOWN, UNKNOWN, 5))


@pytest.mark.parametrize("error", [UnknownTopic("no log directory has it"), AuthorizationFailed("denied")])
def test_what_does_not_change_by_itself_is_raised_at_once(error):
    with pytest.raises(type(error)):
        until_known(answering(error, 5))


def test_a_missing_topic_is_reported_within_a_few_seconds(monkeypatch):
    monkeypatch.undo()
    assert sum(lag.PAUSES[: lag._PAUSES_FOR_TOPICS]) < 5
