"""A fetch session, from the client's side and without a connection (KIP-227).

    full fetch         (id 0, epoch 0): all partitions are named; the answer gives the session's id, or 0 for "none"
    incremental fetch  (id, epoch 1, 2, …): only partitions whose parameters have changed, and those that are removed;
                       the response has only partitions with news
    rejected or lost    (id, epoch 0): a full fetch again, which also ends the old session if the broker still has it
    end                (id, epoch -1)

A broker keeps a number of sessions (`max.incremental.fetch.session.cache.slots`) and drops some for others, so a
session may end at any time; a full fetch is always right. Epochs go from 1 to 2**31 - 1 and then from 1 again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from kseg.client.fetch.messages import PartitionFetch, name_topic, topics_of
from kseg.client.protocol.error_codes import ErrorCode
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
    """The session's fields of a request."""

    session_id: int
    session_epoch: int
    topics: list[FetchRequest.FetchTopic]
    forgotten: list[FetchRequest.ForgottenTopic]

    @property
    def full(self) -> bool:
        """Whether the answer has to name every partition asked for."""
        return self.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH)


class FetchSession:
    """One broker's session. `request`, then exactly one of `on_response`, `on_error` and `on_disconnect`."""

    def __init__(self) -> None:
        self.session_id = NO_SESSION
        self.epoch = INITIAL_EPOCH
        self._in_session: dict[TopicPartition, PartitionFetch] = {}
        self._requested: dict[TopicPartition, PartitionFetch] = {}
        self._by_id = False

    def request(self, fetches: Mapping[TopicPartition, PartitionFetch], version: int) -> SessionPart:
        """The session's fields of a request for all `fetches`, in their order."""
        self._requested = dict(fetches)
        if version < _FIRST_WITH_SESSIONS:
            return SessionPart(NO_SESSION, FINAL_EPOCH, topics_of(fetches.values(), version), [])
        by_id = version >= _FIRST_WITH_TOPIC_IDS
        if by_id != self._by_id:
            self._start_over()  # a session names topics by their names or by their ids, not both
            self._by_id = by_id
        if self.epoch == INITIAL_EPOCH:
            return SessionPart(self.session_id, self.epoch, topics_of(fetches.values(), version), [])
        changed = [fetch for tp, fetch in fetches.items() if self._in_session.get(tp) != fetch]
        gone = [
            earlier
            for tp, earlier in self._in_session.items()
            # A recreated topic is another one under the same name.
            if tp not in fetches or (by_id and earlier.topic_id != fetches[tp].topic_id)
        ]
        return SessionPart(self.session_id, self.epoch, topics_of(changed, version), _forgotten(gone, version))

    def on_response(self, session_id: int) -> None:
        """The response has this session id."""
        if session_id == NO_SESSION:
            self.session_id, self.epoch, self._in_session = NO_SESSION, INITIAL_EPOCH, {}
            return
        self.epoch = next_epoch(self.epoch)
        self.session_id, self._in_session = session_id, self._requested

    def on_error(self, code: int) -> None:
        """The request was rejected because of the session."""
        if code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self.session_id = NO_SESSION  # there is none to be ended
        self._start_over()

    def on_disconnect(self) -> None:
        """The connection broke: whether the broker has counted the request is unknown."""
        self._start_over()

    def _start_over(self) -> None:
        self.epoch = INITIAL_EPOCH
        self._in_session = {}


def _forgotten(gone: list[PartitionFetch], version: int) -> list[FetchRequest.ForgottenTopic]:
    forgotten = []
    for (topic, topic_id), fetches in groupby(gone, key=lambda fetch: (fetch.tp.topic, fetch.topic_id)):
        entry = FetchRequest.ForgottenTopic(partitions=[fetch.tp.partition for fetch in fetches])
        forgotten.append(name_topic(entry, topic, topic_id, version))
    return forgotten
