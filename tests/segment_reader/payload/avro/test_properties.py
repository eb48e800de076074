"""Random schemas, values, later schemas and damage: kernel, plain decoder and fastavro agree."""

from __future__ import annotations

import json
from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from avro_schemas import Evolution, Maker, encode, flat, oracle
from kseg.segment_reader.payload.avro import compiled
from kseg.segment_reader.payload.avro.compiled import CompiledAvroDecoder
from kseg.segment_reader.payload.avro.reference import ReferenceAvroDecoder
from kseg.segment_reader.payload.avro.resolution import Missing, resolve
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status


def decoders(
    writer: Any, reader: Any, missing: Missing = Missing.NULL
) -> tuple[CompiledAvroDecoder, ReferenceAvroDecoder]:
    resolution = resolve(parse_schema(json.dumps(writer)), parse_schema(json.dumps(reader)), missing)
    return CompiledAvroDecoder(resolution), ReferenceAvroDecoder(resolution)


def decode(
    both: tuple[CompiledAvroDecoder, ReferenceAvroDecoder], payloads: pa.Array, skip: int = 0
) -> DecodedPayloads:
    """By both decoders, which agree on each status and each value."""
    fast, reference = (decoder.decode(payloads, skip=skip) for decoder in both)
    assert fast.status.tolist() == reference.status.tolist()
    assert fast.rows.type == reference.rows.type
    fast.rows.validate(full=True)
    assert flat(fast.rows) == flat(reference.rows)
    return fast


seeds = st.integers(0, 2**64)


@given(seeds)
def test_what_is_written_is_read(seed: int) -> None:
    random = Random(seed)
    maker = Maker(random)
    schema = maker.record()
    payloads = [encode(schema, maker.value(schema), random) for _ in range(10)]
    rows = decode(decoders(schema, schema), pa.array(payloads, pa.binary()))
    assert not rows.status.any()
    assert flat(rows.rows) == [oracle(payload, schema) for payload in payloads]


@given(seeds)
def test_payloads_that_are_no_records_are_values(seed: int) -> None:
    random = Random(seed)
    maker = Maker(random)
    schema = maker.schema(2)
    if isinstance(schema, dict) and schema["type"] == "record":
        return
    payloads = [encode(schema, maker.value(schema), random) for _ in range(10)]
    rows = decode(decoders(schema, schema), pa.array(payloads, pa.binary()))
    assert flat(rows.rows) == [oracle(payload, schema) for payload in payloads]


@given(seeds)
def test_a_later_reader_reads_what_an_earlier_writer_wrote(seed: int) -> None:
    random = Random(seed)
    maker = Maker(random, promotions=False)  # fastavro takes the first branch that will do, we the best
    writer = maker.record()
    reader = Evolution(random).schema(writer)
    payloads = [encode(writer, maker.value(writer), random) for _ in range(10)]
    rows = decode(decoders(writer, reader, Missing.FILL), pa.array(payloads, pa.binary()))
    assert not rows.status.any()
    assert flat(rows.rows) == [oracle(payload, writer, reader) for payload in payloads]
    nulls = decode(decoders(writer, reader), pa.array(payloads, pa.binary()))
    assert not nulls.status.any()


@settings(max_examples=settings.default.max_examples * 3)
@given(seeds)
def test_damaged_bytes_are_an_error_or_what_fastavro_reads(seed: int) -> None:
    random = Random(seed)
    # fastavro has a time of day for every number, -1 too, and writes the letters of a uuid small
    maker = Maker(random, promotions=False, without=("time-millis", "time-micros", "uuid"))
    writer = maker.record()
    reader = random.choice((writer, Evolution(random).schema(writer)))
    good = encode(writer, maker.value(writer), random)
    payloads: list[bytes | None] = [good]
    for _ in range(9):
        payloads += [random.choice((damaged(good, random), damaged(good, random), None)), good]
    both = decoders(writer, reader, Missing.FILL)
    array = pa.array([None, *payloads, None], pa.binary()).slice(1, len(payloads))
    rows = decode(both, array)
    values = flat(rows.rows)
    for payload, status, value in zip(payloads, rows.status.tolist(), values, strict=True):
        if payload is None:
            assert (status, value) == (Status.NULL, None)
        elif payload == good:
            assert (status, value) == (Status.DECODED, values[0])
        elif status:
            assert value is None
            assert both[0].explain(payload).status == status
        else:
            try:
                expected = oracle(payload, writer, reader)
            except (OverflowError, ValueError, KeyError):  # times that Python's types cannot hold
                continue
            assert value == expected


@given(seeds)
def test_buffers_that_are_too_small_change_nothing(seed: int) -> None:
    """Every buffer grows again and again: payloads are taken back and decoded anew in the middle of lists."""
    random = Random(seed)
    maker = Maker(random)
    writer = maker.record()
    reader = random.choice((writer, Evolution(random).schema(writer)))
    payloads: list[bytes | None] = []
    for _ in range(10):
        good = encode(writer, maker.value(writer), random)
        payloads += [good, damaged(good, random), None]
    with patch.multiple(compiled, _SMALLEST=-(1 << 40), _FEWEST=1, _SCRATCH=0):
        decode(decoders(writer, reader, Missing.FILL), pa.array(payloads, pa.binary()))


def damaged(payload: bytes, random: Random) -> bytes:
    data = bytearray(payload)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(data) + 1)
        match random.randrange(5):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1 if at < len(data):
                data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                data[at:at] = random.randbytes(random.choice((1, 2, 9)))
            case 3:
                del data[at : at + random.choice((1, 2, 9))]
            case _:
                del data[at:]
    return bytes(data)
