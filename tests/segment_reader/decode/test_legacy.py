"""Message sets of magic 0 and 1: plain, compressed, nested, with holes, with every timestamp rule."""

from __future__ import annotations

import tracemalloc
import zlib
from typing import Any

import pytest

from kseg.segment_reader import errors
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode import legacy
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message, encode_message_set, encode_wrapper

CODECS = list(BY_NAME)
ROWS = [
    Record(b"key", b"value", (), 1_400_000_000_000),
    Record(None, b"value", (), 1_400_000_000_001),
    Record(b"key", None, (), 1_400_000_000_002),
    Record(b"", b"", (), 1_400_000_000_003),
    Record(None, b"v" * 70_000, (), -1),
]


def expected(row_of: Any, magic: int, base: int = 0, time: int | None = None) -> list[dict[str, Any]]:
    """Rows as a job gets them: no time in magic 0; `time` is LogAppendTime's."""
    rows = []
    for i, record in enumerate(ROWS):
        stamp = -1 if magic == 0 else record.timestamp if time is None else time
        rows.append(row_of(record._replace(timestamp=stamp), base + i, 0 if time is None else 1))
    return rows


@pytest.mark.rule(97, 99, 100)
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_message_sets_come_back(decode: Any, row_of: Any, magic: int, codec: str) -> None:
    answer = encode_message_set(ROWS, magic=magic, base_offset=40, compression=codec)
    out = decode(answer, 40)
    assert out.rows == expected(row_of, magic, 40)
    assert out.counts.batches == (len(ROWS) if codec == "none" else 1)


@pytest.mark.rule(104)
@pytest.mark.parametrize("codec", CODECS)
def test_log_append_time_is_the_wrappers(decode: Any, row_of: Any, codec: str) -> None:
    answer = encode_message_set(ROWS, magic=1, compression=codec, timestamp_type=1, timestamp=77_000)
    assert decode(answer).rows == expected(row_of, 1, 0, 77_000)


@pytest.mark.rule(100)
def test_create_time_of_a_plain_message_is_its_own(decode: Any) -> None:
    assert [row["timestampType"] for row in decode(encode_message_set(ROWS, magic=1)).rows] == [0, 0, 0, 0, -1]
    rows = decode(encode_message_set(ROWS, magic=1), null_timestamps=False).rows
    assert [row["timestampType"] for row in rows] == [0] * 5
    rows = decode(encode_message_set(ROWS, magic=0), null_timestamps=False).rows
    assert {(row["timestamp"].isoformat(), row["timestampType"]) for row in rows} == {
        ("1969-12-31T23:59:59.999000+00:00", -1)
    }


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_holes_of_compaction_are_absent(decode: Any, magic: int, codec: str) -> None:
    answer = encode_message_set(
        ROWS, magic=magic, base_offset=10, compression=codec, offset_deltas=[1, 2, 5, 6, 9]
    ) + encode_message_set(ROWS, magic=magic, base_offset=30, compression=codec)
    out = decode(answer, 8, 33)
    assert out.offsets == [11, 12, 15, 16, 19, 30, 31, 32]
    assert out.gaps == [(8, 11), (13, 15), (17, 19), (20, 30)]
    assert decode(answer, 14, 17).offsets == [15, 16]
    assert decode(answer, 16, 25).gaps == [(17, 19), (20, 25)]


@pytest.mark.rule(108)
@pytest.mark.parametrize("magic", [0, 1])
def test_nested_message_sets_are_opened_level_by_level(decode: Any, row_of: Any, magic: int) -> None:
    first = encode_message_set(ROWS[:2], magic=magic, base_offset=50 if magic == 0 else 0, compression="gzip")
    second = encode_message_set(ROWS[2:4], magic=magic, base_offset=52 if magic == 0 else 2, compression="snappy")
    last = encode_message(ROWS[4], magic=magic, offset=54 if magic == 0 else 4)
    answer = encode_wrapper(first + second + last, magic=magic, offset=54, compression="lz4")
    assert decode(answer, 50).rows == expected(row_of, magic, 50)
    twice = encode_wrapper(answer, magic=magic, offset=54, compression="gzip")
    assert decode(twice, 50).rows == expected(row_of, magic, 50)


@pytest.mark.rule(108)
def test_all_nested_sets_of_a_message_share_one_limit(decode: Any) -> None:
    def nested(count: int) -> bytes:
        inner = b"".join(
            encode_wrapper(encode_message(record, magic=1, offset=0), magic=1, offset=i, compression="zstd")
            for i in range(count)
        )
        return encode_wrapper(inner, magic=1, offset=count - 1, compression="zstd")

    record, limits = Record(None, bytes(1 << 20), timestamp=1), Limits(max_batch_bytes=4 << 20)
    assert len(decode(nested(3), limits=limits).rows) == 3
    tracemalloc.start()
    with pytest.raises(errors.BatchTooLarge):
        decode(nested(200), limits=limits)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 << 20  # 200 MB without a common limit


def test_records_of_nested_sets_are_limited(decode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legacy._Budget, "__init__", lambda self, size: _budget(self, size, 10))
    inner = b"".join(encode_message_set(ROWS[:2], magic=0, base_offset=2 * i, compression="gzip") for i in range(6))
    answer = encode_wrapper(inner, magic=0, offset=11, compression="gzip")
    with pytest.raises(errors.BatchTooLarge, match="nested"):
        decode(answer)


def _budget(made: Any, size: int, records: int) -> None:
    made.size, made.records = size, records


@pytest.mark.rule(104)
def test_outermost_log_append_time_wins_and_an_inner_one_stays_with_its_own(decode: Any) -> None:
    inner = encode_message_set(ROWS[:2], magic=1, compression="gzip", timestamp_type=1, timestamp=9_000)
    plain = encode_message(ROWS[2], magic=1, offset=2)
    outer = encode_wrapper(inner + plain, magic=1, offset=2, compression="gzip")
    rows = decode(outer).rows
    assert [(row["timestampType"], row["timestamp"].year) for row in rows] == [(1, 1970), (1, 1970), (0, 2014)]
    stamped = encode_wrapper(inner + plain, magic=1, offset=2, compression="gzip", timestamp=8_000, timestamp_type=1)
    rows = decode(stamped).rows
    assert {(row["timestampType"], row["timestamp"].timestamp()) for row in rows} == {(1, 8.0)}


@pytest.mark.rule(102, 116)
def test_formats_may_be_mixed_in_one_answer(decode: Any) -> None:
    answer = (
        encode_message_set(ROWS, magic=0, compression="lz4")
        + encode_message_set(ROWS, magic=1, base_offset=5, compression="snappy")
        + encode_batch(ROWS, base_offset=10, compression="lz4")
        + encode_message_set(ROWS, magic=1, base_offset=15)
    )
    out = decode(answer, 2, 18, limits=Limits(max_rows=4))
    assert out.offsets == list(range(2, 18))
    assert out.sizes == [4, 4, 4, 4]


def test_provenance_is_null_for_old_messages(decode: Any) -> None:
    answer = encode_message_set(ROWS, magic=1, compression="gzip") + encode_message_set(ROWS, magic=0, base_offset=5)
    rows = decode(answer, provenance=True).rows
    assert len(rows) == 2 * len(ROWS)
    for row in rows:
        names = ["leaderEpoch", "producerId", "producerEpoch", "sequence", "transactional", "batchBaseOffset"]
        assert all(row[name] is None for name in names)


# -- faults


def fault(decode: Any, data: bytes, start: int = 0, end: int = 99, **options: Any) -> errors.RecordFormatError:
    with pytest.raises(errors.RecordFormatError) as caught:
        decode(data, start, end, **options)
    return caught.value


def recrc(message: bytearray) -> bytes:
    message[12:16] = zlib.crc32(message[16:]).to_bytes(4, "big")
    return bytes(message)


@pytest.mark.rule(101)
@pytest.mark.parametrize("magic", [0, 1])
def test_checksums_are_checked_outside_and_inside(decode: Any, magic: int) -> None:
    plain = bytearray(encode_message_set(ROWS[:2], magic=magic))
    plain[-1] ^= 1
    error = fault(decode, bytes(plain))
    assert "checksum" in error.reason
    assert error.address.base_offset == 1
    for around in (bytes(plain), encode_wrapper(bytes(plain), magic=magic, offset=1, compression="gzip")):
        wrapped = encode_wrapper(around, magic=magic, offset=1, compression="lz4")
        assert "checksum" in fault(decode, wrapped).reason
        assert decode(wrapped, 0, 2, check_crcs=False).counts.data == 2
    wrapper = bytearray(encode_message_set(ROWS, magic=magic, compression="gzip"))
    wrapper[-9] ^= 1
    assert "checksum" in fault(decode, bytes(wrapper)).reason


@pytest.mark.parametrize("magic", [0, 1])
def test_a_nested_wrapper_with_a_wrong_checksum_is_refused(decode: Any, magic: int) -> None:
    inner = bytearray(encode_message_set(ROWS[:2], magic=magic, compression="gzip"))
    inner[12] ^= 1
    outer = encode_wrapper(bytes(inner), magic=magic, offset=1, compression="lz4")
    assert "checksum" in fault(decode, outer).reason


@pytest.mark.parametrize("magic", [0, 1])
def test_inner_sets_must_be_whole(decode: Any, magic: int) -> None:
    inner = encode_message_set(ROWS[:2], magic=magic)
    for cut in (len(inner) - 1, 11, 1):
        wrapped = encode_wrapper(inner[:cut], magic=magic, offset=1, compression="gzip")
        assert "cut off" in fault(decode, wrapped).reason
    wrapped = encode_wrapper(b"", magic=magic, offset=1, compression="gzip")
    assert "holds no messages" in fault(decode, wrapped).reason
    null = encode_message(Record(None, None), magic=magic, offset=1, codec=1)
    assert "holds no messages" in fault(decode, null).reason


def test_inner_messages_are_of_the_wrappers_magic(decode: Any) -> None:
    wrapped = encode_wrapper(encode_message_set(ROWS, magic=0), magic=1, offset=4, compression="gzip")
    assert "magic" in fault(decode, wrapped).reason


@pytest.mark.rule(109)
def test_wrapper_below_its_last_inner_offset_is_refused(decode: Any) -> None:
    inner = encode_message_set(ROWS, magic=1)
    assert "inner offset" in fault(decode, encode_wrapper(inner, magic=1, offset=3, compression="gzip")).reason


def test_inner_offsets_must_ascend(decode: Any) -> None:
    for magic in (0, 1):
        inner = b"".join(encode_message(ROWS[0], magic=magic, offset=offset) for offset in (1, 1, 2))
        assert "ascend" in fault(decode, encode_wrapper(inner, magic=magic, offset=2, compression="gzip")).reason
    beyond = encode_message(ROWS[0], magic=0, offset=7)
    assert "ascend" in fault(decode, encode_wrapper(beyond, magic=0, offset=5, compression="gzip")).reason


def test_nesting_has_a_limit(decode: Any) -> None:
    answer = encode_message_set(ROWS[:1], magic=0)
    for _ in range(6):
        answer = encode_wrapper(answer, magic=0, offset=0, compression="gzip")
    assert "nested" in fault(decode, answer).reason


@pytest.mark.rule(97)
@pytest.mark.parametrize("magic", [0, 1])
def test_lengths_must_fill_the_message(decode: Any, magic: int) -> None:
    at = 18 + 8 * magic
    for where, new, reason in (
        (at, b"\x00\x00\x00\x7f", "past the end"),
        (at, b"\x7f\xff\xff\xff", "past the end"),
        (at + 4 + 3, b"\x00\x00\x00\x7f", "past the end"),
        (at + 4 + 3, b"\x00\x00\x00\x01", "do not fill"),
        (at + 4 + 3, b"\xff\xff\xff\xff", "do not fill"),
    ):
        message = bytearray(encode_message(ROWS[0], magic=magic, offset=0))
        message[where : where + 4] = new
        sealed = recrc(message)
        assert reason in fault(decode, sealed).reason
        assert reason in fault(decode, encode_wrapper(sealed, magic=magic, offset=0, compression="gzip")).reason


def test_old_timestamp_beyond_microseconds_names_the_record(decode: Any) -> None:
    late = [ROWS[0], ROWS[1]._replace(timestamp=2**62)]
    for codec in ("none", "gzip"):
        error = fault(decode, encode_message_set(late, magic=1, base_offset=6, compression=codec), 6)
        assert type(error) is errors.UnrepresentableRecord
        assert error.offset == 7


def test_unpacked_size_is_capped(decode: Any) -> None:
    bomb = encode_message_set([Record(b"", bytes(1 << 20))], magic=1, compression="lz4")
    assert type(fault(decode, bomb, limits=Limits(max_batch_bytes=1 << 19))) is errors.BatchTooLarge
