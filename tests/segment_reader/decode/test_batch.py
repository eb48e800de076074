"""Frames, and the offset that the next fetch starts at."""

from __future__ import annotations

import pytest

from kseg.segment_reader.decode.batch import Frame, FrameFault, frames
from kseg.segment_reader.decode.next_offset import next_offset
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set
from kseg.segment_reader.errors import CorruptRecordBatch, Fault

ROWS = [Record(b"k", b"v", (), 1000 + i) for i in range(3)]
ANSWER = (
    encode_batch(ROWS, base_offset=4, last_offset_delta=9, producer_id=8, producer_epoch=1, base_sequence=5)
    + encode_message_set(ROWS, magic=1, base_offset=14, compression="gzip")
    + encode_message_set(ROWS, magic=0, base_offset=17)
)


@pytest.mark.rule(117, 125, 132)
def test_frames_tell_what_headers_say() -> None:
    batch, wrapper, *plain = frames(ANSWER)
    assert batch == Frame(
        position=0,
        size=batch.size,
        magic=2,
        base_offset=4,
        last_offset=13,
        attributes=0,
        crc=batch.crc,
        record_count=3,
        base_timestamp=1000,
        max_timestamp=1002,
        producer_id=8,
        producer_epoch=1,
        base_sequence=5,
    )
    assert (wrapper.magic, wrapper.codec, wrapper.last_offset, wrapper.max_timestamp) == (1, 1, 16, 1002)
    assert [(frame.magic, frame.base_offset) for frame in plain] == [(0, 17), (0, 18), (0, 19)]
    assert plain[-1].position + plain[-1].size == len(ANSWER)


@pytest.mark.rule(165)
def test_next_offset_is_the_one_after_the_last_complete_batch() -> None:
    ends = {frame.position + frame.size: frame.next_offset for frame in frames(ANSWER)}
    expected = 2
    for cut in range(len(ANSWER) + 1):
        expected = ends.get(cut, expected)
        assert next_offset(ANSWER[:cut], 2) == expected
        assert next_offset(memoryview(ANSWER)[:cut], 15) == max(15, expected)


@pytest.mark.rule(102, 105)
@pytest.mark.parametrize(("at", "new"), [(8, b"\xff"), (16, b"\x09"), (23, b"\xff")])
def test_an_impossible_header_is_refused(at: int, new: bytes) -> None:
    bad = bytearray(encode_batch(ROWS, base_offset=4))
    bad[at : at + 1] = new
    with pytest.raises(FrameFault):
        list(frames(bytes(bad)))
    if at == 16:
        return
    with pytest.raises(CorruptRecordBatch) as caught:
        next_offset(encode_batch(ROWS) + bytes(bad), 0, topic="t", partition=7)
    assert (caught.value.address.topic, caught.value.address.partition) == ("t", 7)
    assert caught.value.address.base_offset == 4


def test_every_fault_has_a_reason() -> None:
    frame = next(frames(ANSWER))
    for fault in Fault:
        assert str(fault.error(frame.address("t", 0), detail="why")).endswith(": why")
