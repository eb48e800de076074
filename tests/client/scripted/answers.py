"""Small handlers, one an API: each makes the answer that fits whatever was asked, with one thing about it special."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kseg.client.protocol.messages.fetch import FetchResponse, ListOffsetsResponse
from kseg.client.protocol.messages.offsets import OffsetFetchResponse
from kseg.client.protocol.messages.produce import ProduceResponse
from kseg.client.protocol.messages.transactions import TxnOffsetCommitResponse


def list_offsets(code: int = 0, offset: int = 42) -> Callable[[Any], ListOffsetsResponse]:
    """ListOffsets: every partition has this code or offset."""

    def answer(seen: Any) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsResponse.ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsResponse.ListOffsetsPartitionResponse(
                            partition_index=asked.partition_index, error_code=code, offset=offset
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in seen.request.topics
            ]
        )

    return answer


def fetch(
    records: bytes | Callable[[Any], bytes | None] | None = b"",
    code: int = 0,
    *,
    partition: dict[str, Any] | None = None,
    **fields: Any,
) -> Callable[[Any], FetchResponse]:
    """Fetch: every partition asked for has this code or these records (a function gets what was asked of it).

    `partition` has more fields for each partition, `fields` more for the whole answer.
    """

    def answer(seen: Any) -> FetchResponse:
        return FetchResponse(
            responses=[
                FetchResponse.FetchableTopicResponse(
                    topic=topic.topic,
                    topic_id=topic.topic_id,
                    partitions=[
                        FetchResponse.PartitionData(
                            partition_index=asked.partition,
                            error_code=code,
                            records=records(asked) if callable(records) else records,
                            **{"high_watermark": 100} | (partition or {}),
                        )
                        for asked in topic.partitions
                    ],
                )
                for topic in seen.request.topics
            ],
            **fields,
        )

    return answer


def produce(
    code: int = 0, offset: int = 7, *, partition: dict[str, Any] | None = None, **fields: Any
) -> Callable[[Any], ProduceResponse]:
    """Produce: every partition has this code or base offset."""

    def answer(seen: Any) -> ProduceResponse:
        return ProduceResponse(
            responses=[
                ProduceResponse.TopicProduceResponse(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partition_responses=[
                        ProduceResponse.PartitionProduceResponse(
                            index=sent.index, error_code=code, base_offset=offset, **(partition or {})
                        )
                        for sent in topic.partition_data
                    ],
                )
                for topic in seen.request.topic_data
            ],
            **fields,
        )

    return answer


def offset_fetch(code: int = 0) -> Callable[[Any], OffsetFetchResponse]:
    """OffsetFetch from version 8 on: the group has nothing, or this code."""

    def answer(seen: Any) -> OffsetFetchResponse:
        group = seen.request.groups[0].group_id
        return OffsetFetchResponse(
            groups=[OffsetFetchResponse.OffsetFetchResponseGroup(group_id=group, error_code=code)]
        )

    return answer


def txn_offset_commit(code: int = 0) -> Callable[[Any], TxnOffsetCommitResponse]:
    """TxnOffsetCommit: every partition has this code."""

    def answer(seen: Any) -> TxnOffsetCommitResponse:
        return TxnOffsetCommitResponse(
            topics=[
                TxnOffsetCommitResponse.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        TxnOffsetCommitResponse.TxnOffsetCommitResponsePartition(
                            partition_index=partition.partition_index, error_code=code
                        )
                        for partition in topic.partitions
                    ],
                )
                for topic in seen.request.topics
            ]
        )

    return answer
