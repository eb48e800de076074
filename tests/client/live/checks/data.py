"""Produce, Fetch, ListOffsets, DeleteRecords, OffsetForLeaderEpoch: what was written is what is read and counted."""

from __future__ import annotations

from typing import Any

from kseg.client.protocol.messages.fetch import ListOffsetsRequest, OffsetForLeaderEpochRequest
from kseg.client.protocol.messages.topics import DeleteRecordsRequest
from kseg.segment_reader.encode.batches import Record

NOW = 1_700_000_000_000
ROWS = [
    Record(key=None, value=b"no key", timestamp=NOW),
    Record(key=b"k", value=None, timestamp=NOW + 1),
    Record(key=b"", value=b"v" * 300, timestamp=NOW + 2),
]


def produce(peer: Any, version: int) -> None:
    """Every codec that the version allows, in the format that it demands, read back; one after the other in one log."""
    topic, end = peer.topic(), 0
    for compression in ("none", "gzip", "snappy", "lz4", *(["zstd"] if version >= 7 else [])):
        start = end
        for end in (start + 3, start + 6):
            entry = peer.produce(topic, peer.encode(ROWS, version, compression=compression), version)
            assert (entry.error_code, entry.base_offset) == (0, end - 3), (compression, entry)
            assert entry.log_append_time_ms == -1
            if version >= 5:
                assert entry.log_start_offset == 0
        found = peer.rows(topic, peer.fetch(topic, start).records, start, end)
        assert [(row["offset"], row["key"], row["value"]) for row in found] == [
            (start + at + shift, row.key, row.value) for shift in (0, 3) for at, row in enumerate(ROWS)
        ], compression
        if version >= 2:
            assert [row["timestamp"].timestamp() * 1000 for row in found[:3]] == [row.timestamp for row in ROWS]
        else:
            assert {row["timestampType"] for row in found} == {-1}
    _refused_formats(peer, topic, end, version)


def _refused_formats(peer: Any, topic: str, end: int, version: int) -> None:
    """What is damaged has its own error, and leaves nothing behind what is there."""
    entry = peer.produce(topic, peer.encode(ROWS[:1], version), version)
    assert (entry.error_code, entry.base_offset) == (0, end)
    damaged = bytearray(peer.encode(ROWS[:1], version))
    damaged[-1] ^= 1
    refused = peer.produce(topic, bytes(damaged), version)
    assert refused.error_code in (2, 87), refused  # CORRUPT_MESSAGE; some releases say INVALID_RECORD
    assert peer.values(topic, end, end + 1) == [ROWS[0].value]
    assert peer.fetch(topic, end).high_watermark == end + 1


def fetch(peer: Any, version: int) -> None:
    topic = peer.topic()
    peer.write(topic, [b"a", b"b"], compression="gzip")
    peer.write(topic, [b"c"])
    # The last stable offset is what read_committed asks for; before 2.0 nobody else is told.
    whole = peer.fetch(topic, 0, version, **({"isolation_level": 1} if version >= 4 else {}))
    assert (whole.error_code, whole.high_watermark) == (0, 3)
    if version >= 4:
        assert whole.last_stable_offset == 3
        assert not whole.aborted_transactions
    if version >= 5:
        assert whole.log_start_offset == 0
    formats = {_magic(whole.records)}
    assert formats <= ({0} if version <= 1 else {0, 1} if version <= 3 else {0, 1, 2}), formats
    assert [row["value"] for row in peer.rows(topic, whole.records, 0, 3)] == [b"a", b"b", b"c"]
    # From the middle of a compressed set: it comes whole, and the reader passes over what it did not ask for.
    assert [row["value"] for row in peer.rows(topic, peer.fetch(topic, 1, version).records, 1, 3)] == [b"b", b"c"]
    at_end = peer.fetch(topic, 3, version, max_wait_ms=1)
    assert (at_end.error_code, bytes(at_end.records or b"")) == (0, b"")
    beyond = peer.fetch(topic, 4, version)
    assert beyond.error_code == 1  # OFFSET_OUT_OF_RANGE
    _larger_than_asked_for(peer, version)


def _larger_than_asked_for(peer: Any, version: int) -> None:
    topic = peer.topic()
    peer.write(topic, [b"x" * 5000])
    found = peer.fetch(topic, 0, version, partition_max_bytes=1000).records
    if version < 3:
        # Only as much of it as was asked for, as it is stored; the newest give nothing that cannot be had whole.
        assert len(found) == (1000 if peer.release in ("0.9.0.1", "0.10.2.2", "1.1.1", "2.8.2") else 0)
    else:
        assert [row["value"] for row in peer.rows(topic, found, 0, 1)] == [b"x" * 5000]


def _magic(records: Any) -> int:
    return int(bytes(records)[16])


def list_offsets(peer: Any, version: int) -> None:
    topic = peer.topic()
    peer.write(topic, [b"a", b"b", b"c"])
    if version == 0:
        assert _starts(peer, topic, -2, 5) == [0]
        # One segment: its start, and the end of the log before it, newest first.
        assert _starts(peer, topic, -1, 5) == [3, 0]
        assert _starts(peer, topic, -1, 1) == [3]
        return
    for isolation in (0, 1) if version >= 2 else (0,):
        assert _offset(peer, topic, -2, version, isolation).offset == 0
        assert _offset(peer, topic, -1, version, isolation).offset == 3
        if peer.newest("Produce") < 2:
            continue
        [first, second, *_] = peer.rows(topic, peer.fetch(topic, 0).records, 0, 3)
        time = int(second["timestamp"].timestamp() * 1000)
        found = _offset(peer, topic, time, version, isolation)
        assert (found.offset, found.timestamp) == (1, time)
        assert _offset(peer, topic, time + 3_600_000, version, isolation).offset == -1
        assert first["timestamp"] < second["timestamp"]
    if version >= 7:
        assert _offset(peer, topic, -3, version, 0).offset == 2  # the largest timestamp
    if version >= 8:
        assert _offset(peer, topic, -4, version, 0).offset == 0  # the earliest on the broker's own disk


def _ask(peer: Any, topic: str, time: int, version: int, **fields: Any) -> Any:
    part = ListOffsetsRequest.ListOffsetsPartition(partition_index=0, timestamp=time, **fields.pop("part", {}))
    data = ListOffsetsRequest.ListOffsetsTopic(name=topic, partitions=[part])
    response = peer.call(ListOffsetsRequest(replica_id=-1, topics=[data], **fields), version)
    [found] = response.topics
    [entry] = found.partitions
    assert (found.name, entry.partition_index, entry.error_code) == (topic, 0, 0)
    return entry


def _offset(peer: Any, topic: str, time: int, version: int, isolation: int) -> Any:
    return _ask(peer, topic, time, version, isolation_level=isolation)


def _starts(peer: Any, topic: str, time: int, count: int) -> list[int]:
    found: list[int] = _ask(peer, topic, time, 0, part={"max_num_offsets": count}).old_style_offsets
    return found


def delete_records(peer: Any, version: int) -> None:
    topic = peer.topic()
    peer.write(topic, [b"a", b"b", b"c"])
    for offset, expected in ((2, 2), (-1, 3)):  # -1 is the high watermark
        part = DeleteRecordsRequest.DeleteRecordsPartition(partition_index=0, offset=offset)
        data = DeleteRecordsRequest.DeleteRecordsTopic(name=topic, partitions=[part])
        [found] = peer.call(DeleteRecordsRequest(topics=[data], timeout_ms=10_000), version).topics
        [entry] = found.partitions
        assert (found.name, entry.error_code, entry.low_watermark) == (topic, 0, expected)
        assert _offset(peer, topic, -2, peer.newest("ListOffsets"), 0).offset == expected


def offset_for_leader_epoch(peer: Any, version: int) -> None:
    topic = peer.topic()
    peer.write(topic, [b"a", b"b"])
    part = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    data = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=topic, partitions=[part])
    request = OffsetForLeaderEpochRequest(topics=[data])
    if version >= 3:
        request.replica_id = -1
    [found] = peer.call(request, version).topics
    [entry] = found.partitions
    assert (found.topic, entry.partition, entry.error_code, entry.end_offset) == (topic, 0, 0, 2)
    if version >= 1:
        assert entry.leader_epoch == 0


CHECKS = {
    "Produce": produce,
    "Fetch": fetch,
    "ListOffsets": list_offsets,
    "DeleteRecords": delete_records,
    "OffsetForLeaderEpoch": offset_for_leader_epoch,
}
