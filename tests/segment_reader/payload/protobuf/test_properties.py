"""Random schemas, values and damage: kernel, plain decoder and Google's library agree."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from kseg.segment_reader.payload.decoder import DecodedPayloads, Status
from kseg.segment_reader.payload.protobuf import buffers, compiled
from kseg.segment_reader.payload.protobuf.columns import columns_of
from kseg.segment_reader.payload.protobuf.compiled import CompiledProtobufDecoder
from kseg.segment_reader.payload.protobuf.descriptors import parse_descriptors
from kseg.segment_reader.payload.protobuf.reference import ReferenceProtobufDecoder
from protobuf_schemas import Schemas, expected, flat, has_unknown_entries

Both = tuple[CompiledProtobufDecoder, ReferenceProtobufDecoder]


def decoders(schemas: Schemas) -> Both:
    message = parse_descriptors(schemas.descriptors().SerializeToString()).message("t.M0")
    columns = columns_of(message)
    return CompiledProtobufDecoder(columns), ReferenceProtobufDecoder(columns)


def decode(both: Both, payloads: pa.Array, schemas: Schemas) -> DecodedPayloads:
    """By both decoders, which agree on each status and each value."""
    fast, reference = (decoder.decode(payloads) for decoder in both)
    assert fast.status.tolist() == reference.status.tolist()
    assert fast.rows.type == reference.rows.type
    fast.rows.validate(full=True)
    descriptor = schemas.type.DESCRIPTOR
    assert flat(fast.rows, descriptor) == flat(reference.rows, descriptor)
    return fast


seeds = st.integers(0, 2**64)


@settings(max_examples=settings.default.max_examples * 2)
@given(seeds)
def test_what_is_written_is_read_and_the_kernel_leaves_none_of_it(seed: int) -> None:
    schemas = Schemas(Random(seed))
    messages = [schemas.value() for _ in range(10)]
    payloads = pa.array([message.SerializeToString() for message in messages], pa.binary())
    both = decoders(schemas)
    rows = decode(both, payloads, schemas)
    assert not rows.status.any()
    assert flat(rows.rows, schemas.type.DESCRIPTOR) == [expected(message) for message in messages]


@settings(max_examples=settings.default.max_examples * 5)
@given(seeds)
def test_damaged_bytes_are_an_error_or_what_google_reads(seed: int) -> None:
    random = Random(seed)
    schemas = Schemas(random)
    good = schemas.value().SerializeToString()
    payloads: list[bytes | None] = [good]
    for _ in range(9):
        payloads += [random.choice((damaged(good, random), damaged(good, random), None)), good]
    both = decoders(schemas)
    array = pa.array([None, *payloads, None], pa.binary()).slice(1, len(payloads))
    rows = decode(both, array, schemas)
    values = flat(rows.rows, schemas.type.DESCRIPTOR)
    for payload, status, value in zip(payloads, rows.status.tolist(), values, strict=True):
        if payload is None:
            assert (status, value) == (Status.NULL, None)
        elif payload == good:
            assert (status, value) == (Status.DECODED, values[0])
        elif status:
            assert value is None
            assert both[0].explain(payload).status == status
        elif not has_unknown_entries(read := schemas.type.FromString(payload)):
            assert value == expected(read)


@given(seeds)
def test_messages_behind_each_other_are_merged(seed: int) -> None:
    random = Random(seed)
    schemas = Schemas(random)
    parts = [[schemas.value().SerializeToString() for _ in range(random.choice((2, 3)))] for _ in range(8)]
    payloads = [b"".join(each) for each in parts]
    rows = decode(decoders(schemas), pa.array(payloads, pa.binary()), schemas)
    for payload, status, value in zip(
        payloads, rows.status.tolist(), flat(rows.rows, schemas.type.DESCRIPTOR), strict=True
    ):
        if status == Status.DECODED:
            assert value == expected(schemas.type.FromString(payload))
        else:  # of times only: the seconds of one with the nanoseconds of the other
            assert status == Status.OUT_OF_RANGE


@given(seeds)
def test_buffers_that_are_too_small_change_nothing(seed: int) -> None:
    """Every buffer grows again and again: payloads are taken back and decoded anew in the middle of lists."""
    random = Random(seed)
    schemas = Schemas(random)
    payloads: list[bytes | None] = []
    for _ in range(10):
        good = schemas.value().SerializeToString()
        payloads += [good, damaged(good, random), None]
    with patch.multiple(buffers, _SMALLEST=0, _FEWEST=1), patch.multiple(compiled, _SCRATCH=0):
        decode(decoders(schemas), pa.array(payloads, pa.binary()), schemas)


def damaged(payload: bytes, random: Random) -> bytes:
    data = bytearray(payload)
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0 if at < len(data):
                data[at] ^= 1 << random.randrange(8)
            case 1 if at < len(data):
                data[at] = random.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 2:
                data[at:at] = random.randbytes(random.choice((1, 2, 9)))
            case 3:
                del data[at : at + random.choice((1, 2, 9))]
            case 4:
                start = random.randrange(at + 1)
                data += data[start:at]
            case _:
                del data[at:]
    return bytes(data)


def test_damage_finds_errors_of_google_too() -> None:
    """The oracle refuses some of what is damaged: else the property above would compare nothing."""
    random = Random(1)
    schemas = Schemas(random, "proto3")
    refused: list[Any] = []
    for _ in range(200):
        try:
            schemas.type.FromString(damaged(schemas.value().SerializeToString(), random))
        except DecodeError as error:
            refused.append(error)
    assert 20 < len(refused) < 200
