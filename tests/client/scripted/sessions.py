"""A broker's side of fetch sessions, over logs of one byte a record: what it knows is what the client has told it."""

from __future__ import annotations

from typing import Any

from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse


class ScriptedSessions:
    """Answers Fetch on a scripted broker as a real one does, with sessions that the test may drop or refuse.

    `logs` maps (topic, partition) to the records, each one byte; a fetch gives `step` of them. `sessions` maps ids to
    what the broker believes is asked: {(topic, partition): fetch offset}, in its order.
    """

    def __init__(self, broker: Any, logs: dict[tuple[str, int], bytes], *, step: int = 1) -> None:
        self.logs = logs
        self.step = step
        self.refusing = False
        self.sessions: dict[int, dict[tuple[str, int], int]] = {}
        self.epochs: dict[int, int] = {}
        self.errors: dict[tuple[str, int], int] = {}
        self._ids = iter(range(1, 10_000))
        self._names = {topic.topic_id: name for name, topic in broker.topics.items()}
        self._broker = broker
        broker.on(FetchRequest, self.fetch)

    def evict(self) -> None:
        """The cache was full."""
        self.sessions.clear()

    def fetch(self, seen: Any) -> FetchResponse:
        request: FetchRequest = seen.request
        asked = {
            self._key(topic, partition.partition): partition.fetch_offset
            for topic in request.topics
            for partition in topic.partitions
        }
        if request.session_epoch in (0, -1):
            self.sessions.pop(request.session_id, None)
            session_id = 0
            if request.session_epoch == 0 and not self.refusing:
                session_id = next(self._ids)
                self.sessions[session_id], self.epochs[session_id] = asked, 1
            return self._answer(seen, asked, session_id, full=True)
        session = self.sessions.get(request.session_id)
        if session is None:
            return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if request.session_epoch != self.epochs[request.session_id]:
            return FetchResponse(error_code=ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        self.epochs[request.session_id] += 1
        for topic in request.forgotten_topics_data:
            for number in topic.partitions:
                del session[self._key(topic, number)]
        session.update(asked)
        return self._answer(seen, session, request.session_id, full=False)

    def _key(self, topic: Any, partition: int) -> tuple[str, int]:
        return (topic.topic or self._names[topic.topic_id], partition)

    def _answer(self, seen: Any, asked: dict[tuple[str, int], int], session_id: int, *, full: bool) -> FetchResponse:
        response = FetchResponse(session_id=session_id)
        for (topic, number), offset in asked.items():
            log = self.logs[topic, number]
            records = log[offset : offset + self.step]
            code = self.errors.get((topic, number), 0)
            if not (full or records or code):
                continue
            response.responses.append(
                FetchResponse.FetchableTopicResponse(
                    topic=topic if seen.version < 13 else "",
                    topic_id=self._broker.topics[topic].topic_id,
                    partitions=[
                        FetchResponse.PartitionData(
                            partition_index=number,
                            error_code=code,
                            records=None if code else records,
                            high_watermark=len(log),
                            last_stable_offset=len(log),
                        )
                    ],
                )
            )
            if seen.version < 13:
                response.responses[-1].topic_id = type(self._broker.topics[topic].topic_id)(int=0)
        return response
