"""A fetch session, from the client's side and without a connection (KIP-227).

    full fetch         (id 0, epoch 0): all partitions are named; the answer gives the session's id, or 0 for "none"
    incremental fetch  (id, epoch 1, 2, …): only partitions whose question has changed, and those that are left out now;
                       the answer names only partitions with news
    refused or lost    (id, epoch 0): a full fetch again, which also ends the old session if the broker still has it
    end                (id, epoch -1)

A broker keeps a number of sessions (`max.incremental.fetch.session.cache.slots`) and drops some for others, so a
session may end at any time; a full fetch is always right. Epochs go from 1 to 2**31 - 1 and then from 1 again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from kseg.client.fetch.messages import Ask, name_topic, topics_of
from kseg.client.protocol import ErrorCode
from kseg.client.protocol.messages.fetch import FetchRequest
from kseg.client.protocol.partition import TopicPartition

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
_FIRST_WITH_SESSIONS: Final = 7
_FIRST_WITH_TOPIC_IDS: Final = 13


def next_epoch(epoch: int) -> int:
    """The epoch of the request after one with this epoch."""
    return 1 if epoch == MAX_EPOCH else epoch + 1


@dataclass(frozen=True, slots=True)
class SessionPart:
    """What a request carries of the session."""

    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten: list[FetchRequest.ForgottenTopic]

    @property
    def full(self) -> bool:
        """Whether the answer has to name every partition asked for."""
        return self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)


class FetchSession:
    """One broker's session. `request`, then exactly one of `answered`, `refused` and `lost`."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._held: dict[TopicPartition, Ask] = {}
        self._asked: dict[TopicPartition, Ask] = {}
        self._by_id = False

    def request(self, asks: Mapping[TopicPartition, Ask], version: int) -> SessionPart:
        """What the next request says to ask all of `asks`, in their order."""
        self._asked = dict(asks)
        if version < _FIRST_WITH_SESSIONS:
            return SessionPart(NO_SESSION, FINAL_EPOCH, topics_of(asks.values(), version), [])
        by_id = version >= _FIRST_WITH_TOPIC_IDS
        if by_id != self._by_id:
            self._start_over()  # a session names topics by their names or by their ids, not both
            self._by_id = by_id
        if self.epoch == INITIAL_EPOCH:
            return SessionPart(self.session_id, self.epoch, topics_of(asks.values(), version), [])
        changed = [ask for tp, ask in asks.items() if self._held.get(tp) != ask]
        gone = [
            held
            for tp, held in self._held.items()
            # A topic that was made anew is another one under the same name.
            if tp not in asks or (by_id and held.topic_id != asks[tp].topic_id)
        ]
        return SessionPart(self.session_id, self.epoch, topics_of(changed, version), _forgotten(gone, version))

    def answered(self, session_id: int) -> None:
        """The request was answered, and the answer names this session."""
        if session_id == NO_SESSION:
            self.session_id, self.epoch, self._held = NO_SESSION, INITIAL_EPOCH, {}
            return
        self.epoch = next_epoch(self.epoch)
        self.session_id, self._held = session_id, self._asked

    def refused(self, code: int) -> None:
        """The request was refused because of the session."""
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION  # there is none to be ended
        self._start_over()

    def lost(self) -> None:
        """The connection broke: whether the broker has counted the request is open."""
        self._start_over()

    def _start_over(self) -> None:
        self.epoch = INITIAL_EPOCH
        self._held = {}


def _forgotten(gone: list[Ask], version: int) -> list[FetchRequest.ForgottenTopic]:
    forgotten = []
    for (topic, topic_id), asks in groupby(gone, key=lambda ask: (ask.tp.topic, ask.topic_id)):
        entry = FetchRequest.ForgottenTopic(partitions=[ask.tp.partition for ask in asks])
        forgotten.append(name_topic(entry, topic, topic_id, version))
    return forgotten
