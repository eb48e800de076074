"""One policy: exponential, with jitter, up to a deadline."""

from __future__ import annotations

import time

import pytest

from kseg.client.errors import BrokerUnavailable, Fenced, KafkaError, ProtocolFault, RequestTimedOut, UnknownTopic
from kseg.client.retry import Deadline, RetryPolicy


def pauses_of(policy: RetryPolicy, tries: int, factor: float = 1.0) -> list[float]:
    slept: list[float] = []
    backoff = policy.start(Deadline.after(1000), sleep=slept.append, uniform=lambda low, high: factor)
    for _ in range(tries):
        backoff.pause(BrokerUnavailable("away"))
    return slept


def test_pauses_double_up_to_the_maximum():
    assert pauses_of(RetryPolicy(0.1, 1.0), 6) == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_the_first_pause_is_the_initial_one():
    policy = RetryPolicy(0.1, 1.0)
    assert [policy.pause_after(failures) for failures in (1, 2, 3, 2000)] == pytest.approx([0.1, 0.2, 0.4, 1.0])


def test_many_tries_do_not_overflow():
    assert pauses_of(RetryPolicy(0.1, 1.0), 2000)[-1] == 1.0


def test_jitter_is_a_fifth_either_way():
    drawn: list[tuple[float, float]] = []
    backoff = RetryPolicy().start(
        Deadline.after(10), sleep=lambda _: None, uniform=lambda low, high: drawn.append((low, high)) or 1.0
    )
    backoff.pause(BrokerUnavailable("away"))
    assert drawn == [(0.8, 1.2)]


def test_an_error_that_is_not_retriable_comes_back_at_once():
    slept: list[float] = []
    fault = ProtocolFault("garbage")
    with pytest.raises(ProtocolFault) as caught:
        RetryPolicy().start(Deadline.after(10), sleep=slept.append).pause(fault)
    assert caught.value is fault
    assert slept == []


def test_the_last_error_comes_back_when_no_time_is_left_and_tells_the_tries():
    backoff = RetryPolicy(0.1, 1.0).start(Deadline.after(0.05), sleep=lambda _: None)
    with pytest.raises(BrokerUnavailable) as caught:
        backoff.pause(BrokerUnavailable("away"))
    assert "at try 1" in caught.value.__notes__[0]


def test_no_pause_goes_beyond_the_deadline():
    backoff = RetryPolicy(5.0, 5.0).start(Deadline.after(1.0), sleep=lambda _: pytest.fail("slept"))
    with pytest.raises(BrokerUnavailable):
        backoff.pause(BrokerUnavailable("away"))


@pytest.mark.parametrize("cut_short", [RequestTimedOut("no answer in time"), BrokerUnavailable("cannot connect")])
def test_a_last_try_that_the_deadline_cut_short_does_not_hide_what_was_wrong(cut_short: KafkaError):
    deadline = Deadline.after(0.2)
    backoff = RetryPolicy(0.0, 0.0).start(deadline)
    unknown = UnknownTopic("not known", topic="t", retriable=True)
    backoff.pause(unknown)
    time.sleep(deadline.remaining())
    cut_short.sent = True
    with pytest.raises(UnknownTopic) as caught:
        backoff.pause(cut_short)
    assert caught.value is unknown
    assert caught.value.sent
    assert "at try 2" in caught.value.__notes__[0]


def test_brokers_that_answer_no_more_before_the_deadline_are_what_is_wrong():
    backoff = RetryPolicy(0.0, 0.0).start(deadline := Deadline.after(0.2))
    backoff.pause(UnknownTopic("not known", topic="t", retriable=True))
    backoff.pause(BrokerUnavailable("cannot connect"))
    time.sleep(deadline.remaining())
    with pytest.raises(BrokerUnavailable, match="still not"):
        backoff.pause(BrokerUnavailable("still not"))


@pytest.mark.parametrize("last", [Fenced("fenced"), UnknownTopic("of another topic", topic="u", retriable=True)])
def test_what_the_last_try_was_answered_is_what_counts(last: KafkaError):
    backoff = RetryPolicy(0.0, 0.0).start(deadline := Deadline.after(0.2))
    backoff.pause(UnknownTopic("not known", topic="t", retriable=True))
    time.sleep(deadline.remaining())
    with pytest.raises(type(last)) as caught:
        backoff.pause(last)
    assert caught.value is last


def test_a_deadline_within_another_is_the_earlier_one():
    assert Deadline.after(1).within(100).remaining() < 1.1
    assert Deadline.after(100).within(1).remaining() < 1.1
    assert Deadline.after(-1).remaining() == 0.0
    assert Deadline.after(-1).passed


def test_only_the_first_error_that_names_where_to_go_is_followed_at_once():
    slept: list[float] = []
    backoff = RetryPolicy(0.1, 1.0).start(Deadline.after(10), sleep=slept.append, uniform=lambda low, high: 1.0)
    for _ in range(3):
        error = BrokerUnavailable("away")
        error.learnt = True
        backoff.pause(error)
    assert slept == pytest.approx([0.2, 0.4])
