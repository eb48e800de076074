"""A fetch session without a connection: what each request says, and that the broker always knows what is wanted."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.fetch.messages import PartitionFetch
from kseg.client.fetch.session import FINAL_EPOCH, MAX_EPOCH, FetchSession, SessionPart, next_epoch
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.partition import TopicPartition

ID = UUID(int=7)
OTHER_ID = UUID(int=8)


def ask(name: str, number: int, offset: int = 0, topic_id: UUID | None = ID) -> PartitionFetch:
    return PartitionFetch(TopicPartition(name, number), offset, 0, 1000, topic_id)


def asks(*them: PartitionFetch) -> dict[TopicPartition, PartitionFetch]:
    return {one.tp: one for one in them}


def named(part: SessionPart) -> list[tuple[int, int]]:
    return [(p.partition, p.fetch_offset) for topic in part.topics for p in topic.partitions]


def forgotten(part: SessionPart) -> list[tuple[str | UUID, list[int]]]:
    return [(topic.topic or topic.topic_id, topic.partitions) for topic in part.forgotten]


@pytest.mark.rule(159)
def test_the_first_request_names_everything_and_the_next_only_what_has_changed():
    session = FetchSession()
    first = session.request(asks(ask("t", 0), ask("t", 1), ask("t", 2)), 12)
    assert (first.session_id, first.session_epoch, first.full) == (0, 0, True)
    assert named(first) == [(0, 0), (1, 0), (2, 0)]
    session.on_response(99)
    second = session.request(asks(ask("t", 0), ask("t", 1, 5)), 12)
    assert (second.session_id, second.session_epoch, second.full) == (99, 1, False)
    assert named(second) == [(1, 5)]
    assert forgotten(second) == [("t", [2])]
    session.on_response(99)
    third = session.request(asks(ask("t", 0), ask("t", 1, 5)), 12)
    assert (third.session_epoch, named(third), forgotten(third)) == (2, [], [])


@pytest.mark.rule(154)
def test_partitions_stand_in_the_order_given():
    order = [ask("b", 1), ask("a", 0), ask("b", 0), ask("b", 2)]
    part = FetchSession().request(asks(*order), 12)
    found = [(topic.topic, p.partition) for topic in part.topics for p in topic.partitions]
    assert found == [tuple(one.tp) for one in order]


def test_a_session_that_the_broker_refuses_is_asked_for_again_with_a_full_fetch():
    session = FetchSession()
    session.request(asks(ask("t", 0)), 12)
    session.on_response(0)
    again = session.request(asks(ask("t", 0)), 12)
    assert (again.session_id, again.session_epoch) == (0, 0)
    assert named(again) == [(0, 0)]


@pytest.mark.rule(160)
@pytest.mark.parametrize(
    ("code", "session_id"),
    [
        (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0),
        (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 99),
        (ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, 99),
    ],
)
def test_a_lost_session_is_replaced_by_a_full_fetch_that_ends_the_old_one(code: ErrorCode, session_id: int):
    session = FetchSession()
    session.request(asks(ask("t", 0)), 12)
    session.on_response(99)
    session.request(asks(ask("t", 0)), 12)
    session.on_error(code)
    part = session.request(asks(ask("t", 0)), 12)
    assert (part.session_id, part.session_epoch, named(part)) == (session_id, 0, [(0, 0)])


def test_after_a_broken_connection_everything_is_named_again():
    session = FetchSession()
    session.request(asks(ask("t", 0)), 12)
    session.on_response(99)
    session.request(asks(ask("t", 0, 5)), 12)
    session.on_disconnect()
    part = session.request(asks(ask("t", 0, 5)), 12)
    assert (part.session_id, part.session_epoch, named(part)) == (99, 0, [(0, 5)])


def test_epochs_begin_again_after_the_largest():
    assert next_epoch(1) == 2
    assert next_epoch(MAX_EPOCH) == 1
    session = FetchSession()
    session.request(asks(ask("t", 0)), 12)
    session.on_response(99)
    session.epoch = MAX_EPOCH
    assert session.request(asks(ask("t", 0)), 12).session_epoch == 2**31 - 1
    session.on_response(99)
    assert session.request(asks(ask("t", 0)), 12).session_epoch == 1


def test_versions_before_sessions_ask_without_one():
    session = FetchSession()
    for _ in range(2):
        part = session.request(asks(ask("t", 0), ask("t", 1)), 6)
        assert (part.session_id, part.session_epoch, named(part)) == (0, FINAL_EPOCH, [(0, 0), (1, 0)])
        session.on_response(0)


def test_names_and_ids_are_never_mixed_in_one_session():
    session = FetchSession()
    session.request(asks(ask("t", 0)), 12)
    session.on_response(99)
    part = session.request(asks(ask("t", 0)), 13)
    assert (part.session_id, part.session_epoch) == (99, 0)
    assert part.topics[0].topic_id == ID


def test_a_topic_made_anew_is_forgotten_under_its_old_id():
    session = FetchSession()
    session.request(asks(ask("t", 0)), 13)
    session.on_response(99)
    part = session.request(asks(ask("t", 0, topic_id=OTHER_ID)), 13)
    assert forgotten(part) == [(ID, [0])]
    assert [topic.topic_id for topic in part.topics] == [OTHER_ID]


class Believing:
    """A broker that believes what it is told, and keeps one session."""

    def __init__(self) -> None:
        self.session_id, self.epoch = 0, 0
        self.wanted: dict[tuple[Any, int], int] = {}

    def hear(self, part: SessionPart, new_id: int) -> int | ErrorCode:
        told = {(t.topic_id, p.partition): p.fetch_offset for t in part.topics for p in t.partitions}
        if part.session_epoch == 0:
            self.session_id, self.epoch, self.wanted = new_id, 1, told
            return new_id
        if part.session_id != self.session_id:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        if part.session_epoch != self.epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH
        self.epoch = next_epoch(self.epoch)
        for topic in part.forgotten:
            for number in topic.partitions:
                del self.wanted[topic.topic_id, number]
        self.wanted |= told
        return self.session_id


wishes = st.dictionaries(
    st.integers(0, 5), st.tuples(st.integers(0, 3), st.sampled_from([ID, OTHER_ID])), min_size=1, max_size=6
)
happenings = st.sampled_from(["answered", "answered", "lost before", "lost after", "evicted"])


@given(st.lists(st.tuples(wishes, happenings), min_size=1, max_size=20))
def test_whatever_happens_the_broker_knows_exactly_what_is_wanted(steps: list[tuple[Any, str]]):
    session, broker, new_ids = FetchSession(), Believing(), iter(range(1, 1000))
    for wish, happening in steps:
        wanted = asks(*(ask("t", number, offset, topic_id) for number, (offset, topic_id) in wish.items()))
        if happening == "evicted":
            broker.session_id, broker.wanted = -1, {}
        while True:
            part = session.request(wanted, 13)
            if happening == "lost before":
                happening = "answered"
                session.on_disconnect()
                continue
            heard = broker.hear(part, next(new_ids))
            if happening == "lost after":
                happening = "answered"
                session.on_disconnect()
                continue
            if isinstance(heard, ErrorCode):
                session.on_error(heard)
                continue
            session.on_response(heard)
            break
        assert broker.wanted == {(one.topic_id, one.tp.partition): one.offset for one in wanted.values()}
