"""What is wrong with a batch, told alike by both engines: which error, at which batch and record."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader import errors
from kseg.segment_reader.codecs.registry import BY_NAME
from kseg.segment_reader.decode.batch import ATTRIBUTES_AT, RECORD_COUNT_AT
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_record, seal, varint

CODECS = list(BY_NAME)


def plain(n: int, size: int = 10) -> list[Record]:
    return [Record(b"%d" % i, bytes([i % 251]) * size, (), 1000 + i) for i in range(n)]


def fault(decode: Any, record_set: bytes, *args: Any, **options: Any) -> errors.RecordFormatError:
    with pytest.raises(errors.RecordFormatError) as caught:
        decode(record_set, *args, **options)
    error = caught.value
    assert error.retriable is False
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.address, copy.reason, str(copy)) == (type(error), error.address, error.reason, str(error))
    return error


def patched(batch: bytes, at: int, new: bytes) -> bytes:
    out = bytearray(batch)
    out[at : at + len(new)] = new
    return seal(out)


def with_records(body: bytes, count: int, **options: Any) -> bytes:
    """A batch around ready record bytes."""
    batch = bytearray(
        encode_batch([], last_offset_delta=options.pop("last_offset_delta", max(count - 1, 0)), **options)
    )
    batch += body
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[RECORD_COUNT_AT : RECORD_COUNT_AT + 4] = count.to_bytes(4, "big")
    return seal(batch)


def record_bytes(body: bytes) -> bytes:
    return varint(len(body)) + body


HEAD = b"\x00" + varint(0) + varint(0)  # attributes, timestamp and offset delta
NULLS = varint(-1) + varint(-1)


@pytest.mark.rule(120)
@pytest.mark.parametrize("codec", CODECS)
def test_a_flipped_bit_is_found_by_the_checksum(decode: Any, codec: str) -> None:
    good = encode_batch(plain(3), base_offset=10, compression=codec)
    for at in (30, 40, 50, len(good) - 1):
        bad = bytearray(good)
        bad[at] ^= 0x10
        answer = encode_batch(plain(10)) + bytes(bad)
        error = fault(decode, answer, 0, 13)
        assert isinstance(error, errors.CorruptRecordBatch)
        assert "checksum" in error.reason
        assert (error.address.topic, error.address.partition, error.address.base_offset) == ("topic", 3, 10)
        assert error.address.position == len(answer) - len(bad)


def test_checksums_can_be_left_unchecked(decode: Any) -> None:
    bad = bytearray(encode_batch(plain(3)))
    bad[-3] ^= 1
    assert decode(bytes(bad), check_crcs=False).counts.data == 3


@pytest.mark.rule(118)
@pytest.mark.parametrize(
    ("body", "count", "reason"),
    [
        (b"", 1, "fewer records"),
        (record_bytes(HEAD + NULLS + varint(0)), 2, "fewer records"),
        (record_bytes(HEAD + NULLS + varint(0)) + b"\x00", 1, "bytes are left"),
        (b"\x80", 1, "variable-length integer"),
        (b"\xff\xff\xff\xff\xff\x01", 1, "variable-length integer"),
        (b"\xff\xff\xff\xff\x1f", 1, "variable-length integer"),
        (varint(-1) + b"\x00" * 9, 1, "past the end of its batch"),
        (varint(50) + b"\x00" * 9, 1, "past the end of its batch"),
        (varint(2**31 - 1) + b"\x00" * 9, 1, "past the end of its batch"),
        (varint(0), 1, "do not fill its length"),
        (record_bytes(b"\x00"), 1, "variable-length integer"),
        (record_bytes(b"\x00" + b"\x80" * 10 + b"\x00" + NULLS + b"\x00"), 1, "variable-length integer"),
        (record_bytes(b"\x00" + b"\xff" * 9 + b"\x02" + b"\x00" + NULLS + b"\x00"), 1, "variable-length integer"),
        (record_bytes(HEAD + varint(5) + b"abc"), 1, "past the end of its record"),
        (record_bytes(HEAD + varint(-1) + varint(5) + b"abc"), 1, "past the end of its record"),
        (record_bytes(HEAD + NULLS), 1, "variable-length integer"),
        (record_bytes(HEAD + NULLS + varint(-1)), 1, "number of headers"),
        (record_bytes(HEAD + NULLS + varint(3) + b"\x00\x00"), 1, "number of headers"),
        (record_bytes(HEAD + NULLS + varint(1) + varint(-1) + varint(0)), 1, "key is null"),
        (record_bytes(HEAD + NULLS + varint(1) + varint(9) + b"a"), 1, "past the end of its record"),
        (record_bytes(HEAD + NULLS + varint(1) + varint(1) + b"a" + varint(9)), 1, "past the end of its record"),
        (record_bytes(HEAD + NULLS + varint(0) + b"x"), 1, "do not fill its length"),
        (encode_record(plain(1)[0], offset_delta=0, base_timestamp=0) * 2, 2, "do not ascend"),
        (encode_record(plain(1)[0], offset_delta=1, base_timestamp=0), 1, "do not ascend"),
        (encode_record(plain(1)[0], offset_delta=-1, base_timestamp=0), 1, "do not ascend"),
    ],
)
@pytest.mark.parametrize("headers", [True, False])
def test_impossible_records_are_refused(decode: Any, body: bytes, count: int, reason: str, headers: bool) -> None:
    """Whether their headers are wanted or not."""
    error = fault(decode, with_records(body, count), 0, 2, headers=headers)
    assert type(error) is errors.CorruptRecordBatch
    assert reason in error.reason


def test_negative_lengths_are_null_as_in_kafkas_own_reader(decode: Any) -> None:
    body = record_bytes(HEAD + varint(-2) + varint(-7) + varint(1) + varint(0) + varint(-3))
    row = decode(with_records(body, 1)).rows[0]
    assert (row["key"], row["value"], row["headers"]) == (None, None, [{"key": "", "value": None}])


@pytest.mark.rule(119)
@pytest.mark.parametrize(
    ("at", "new", "kind", "reason"),
    [
        (8, b"\xff\xff\xff\xff", errors.CorruptRecordBatch, "smallest possible"),
        (8, b"\x00\x00\x00\x0d", errors.CorruptRecordBatch, "smallest possible"),
        (8, b"\x00\x00\x00\x30", errors.CorruptRecordBatch, "smallest possible"),
        (0, b"\xff", errors.CorruptRecordBatch, "outside of what a log"),
        (0, b"\x7f" + b"\xff" * 7, errors.CorruptRecordBatch, "outside of what a log"),
        (0, b"\x7f" + b"\xff" * 6 + b"\xfe", errors.CorruptRecordBatch, "do not agree"),
        (16, b"\x03", errors.UnsupportedMagic, "magic"),
        (16, b"\xff", errors.UnsupportedMagic, "magic"),
        (ATTRIBUTES_AT + 1, b"\x07", errors.UnsupportedCompression, "codec"),
        (23, b"\xff\xff\xff\xff", errors.CorruptRecordBatch, "do not agree"),
        (23, b"\x00\x00\x00\x01", errors.CorruptRecordBatch, "do not agree"),
        (57, b"\xff\xff\xff\xff", errors.CorruptRecordBatch, "do not agree"),
    ],
)
def test_impossible_headers_are_refused(
    decode: Any, at: int, new: bytes, kind: type[errors.RecordFormatError], reason: str
) -> None:
    error = fault(decode, patched(encode_batch(plain(3)), at, new), 0, 9)
    assert type(error) is kind
    assert reason in error.reason


def test_the_first_of_two_faults_is_told(decode: Any) -> None:
    bad_body = with_records(b"\x80", 1)
    bad_codec = bytearray(encode_batch(plain(3), base_offset=1, compression="zstd"))
    bad_codec[-1] ^= 1
    bad_header = patched(encode_batch(plain(3), base_offset=4), 57, b"\xff\xff\xff\xff")
    assert "integer" in fault(decode, bad_body + bytes(bad_codec) + bad_header, 0, 9).reason
    assert "checksum" in fault(decode, encode_batch(plain(1)) + bytes(bad_codec) + bad_header, 0, 9).reason
    assert "agree" in fault(decode, encode_batch(plain(1)) + bad_header, 0, 9).reason


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_control_batch_without_a_type_is_refused(decode: Any, key: bytes | None) -> None:
    for codec in ("none", "lz4"):
        batch = encode_batch([Record(key, b"")], control=True, producer_id=1, compression=codec)
        assert "control" in fault(decode, batch, 0, 1).reason


@pytest.mark.parametrize("name", [b"\xff", b"ab\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_a_header_name_that_is_not_utf8_and_is_refused_names_the_record(decode: Any, name: bytes) -> None:
    batch = encode_batch([*plain(2), Record(b"", b"", [("fine", b""), (name, b"")])], base_offset=40)
    error = fault(decode, batch, 40, 43, header_names="refuse")
    assert type(error) is errors.UnrepresentableRecord
    assert error.offset == 42
    assert "offset 42" in str(error)


@pytest.mark.rule(119)
@pytest.mark.parametrize("name", ["é", "\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff"])
def test_header_keys_of_every_utf8_length(decode: Any, name: str) -> None:
    assert decode(encode_batch([Record(b"", b"", [(name, b"")])])).rows[0]["headers"][0]["key"] == name


@pytest.mark.parametrize("millis", [9_223_372_036_854_776, -9_223_372_036_854_776, 2**62])
def test_timestamp_beyond_microseconds_names_the_record(decode: Any, millis: int) -> None:
    batch = encode_batch([*plain(2), Record(b"", b"", (), millis)])
    error = fault(decode, batch, 0, 3)
    assert type(error) is errors.UnrepresentableRecord
    assert error.offset == 2
    append_time = encode_batch(plain(2), timestamp_type=1, max_timestamp=millis)
    assert fault(decode, append_time, 0, 2).offset == 0


@pytest.mark.rule(124)
def test_timestamp_that_overflows_milliseconds_names_the_record(decode: Any) -> None:
    body = record_bytes(b"\x00" + varint(2**63 - 1) + varint(0) + NULLS + b"\x00")
    batch = patched(with_records(body, 1), 27, (2**62).to_bytes(8, "big"))
    assert fault(decode, batch, 0, 1).offset == 0


@pytest.mark.rule(124)
def test_largest_and_smallest_timestamps_are_kept(engine: str) -> None:
    millis = [9_223_372_036_854_775, -9_223_372_036_854_775]
    decoder = RangeDecoder("t", 0, 0, 2, isolation_level="read_committed", engine=engine)
    rows = [encode_batch([Record(timestamp=value)], base_offset=i) for i, value in enumerate(millis)]
    (batch,) = [*decoder.feed(b"".join(rows)), *decoder.finish()]
    assert batch.column("timestamp").cast(pa.int64()).to_pylist() == [value * 1000 for value in millis]


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_batch_that_unpacks_to_too_much_is_refused(decode: Any, codec: str) -> None:
    bomb = encode_batch([Record(b"", bytes(1 << 20))], compression=codec)
    error = fault(decode, bomb, 0, 1, limits=Limits(max_batch_bytes=1 << 19))
    assert type(error) is errors.BatchTooLarge
    assert decode(bomb, 0, 1, limits=Limits(max_batch_bytes=1 << 21)).counts.data == 1


@pytest.mark.rule(105, 133)
@pytest.mark.parametrize("codec", CODECS[1:])
def test_bytes_that_do_not_unpack_are_refused(decode: Any, codec: str) -> None:
    batch = bytearray(encode_batch(plain(30), compression=codec))
    del batch[-4:]
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    error = fault(decode, seal(batch), 0, 30)
    assert type(error) is errors.CorruptRecordBatch


def test_ranges_and_options_that_make_no_sense_are_refused(engine: str) -> None:
    for start, end in ((-1, 3), (4, 3)):
        with pytest.raises(ValueError, match="range"):
            RangeDecoder("t", 0, start, end, isolation_level="read_committed", engine=engine)
    with pytest.raises(ValueError, match="isolation_level"):
        RangeDecoder("t", 0, 0, 1, isolation_level="snapshot", engine=engine)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="engine"):
        RangeDecoder("t", 0, 0, 1, isolation_level="read_committed", engine="turbo")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_bytes"):
        Limits(max_bytes=1 << 31)
