"""AWS Glue's header before payloads, as its description has it, around records that fastavro encodes."""

from __future__ import annotations

import io
import json
import random
import uuid
import zlib
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from kseg.segment_reader.payload import glue
from kseg.segment_reader.payload.avro.decoder import avro_decoder
from kseg.segment_reader.payload.avro.schema import parse_schema
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.errors import TooLargeForOneBatch
from kseg.segment_reader.payload.glue import GlueDecoder, has_glue_frame

FIELDS = [{"name": "id", "type": "long"}, {"name": "note", "type": "string"}]
SCHEMA = {"type": "record", "name": "Order", "fields": FIELDS}
VERSION = uuid.UUID("b7b4a7f0-9c96-4e4a-a687-fb5de9ef0c63")
DECODER = GlueDecoder(avro_decoder(parse_schema(json.dumps(SCHEMA))))


def order(number: int) -> dict[str, Any]:
    return {"id": number, "note": "x" * number}


def framed(body: bytes, *, compressed: bool) -> bytes:
    return bytes([3, 5 if compressed else 0]) + VERSION.bytes + (zlib.compress(body) if compressed else body)


def encoded(value: dict[str, Any], *, compressed: bool = False) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(SCHEMA), value)
    return framed(out.getvalue(), compressed=compressed)


WHOLE = encoded(order(1), compressed=True)
BAD = {
    "empty": b"",
    "short": WHOLE[:17],
    "another version": b"\2" + WHOLE[1:],
    "another compression": b"\3\1" + WHOLE[2:],
    "cut in the stream": WHOLE[:-1],
    "more after the stream": WHOLE + b"\0",
    "no stream": WHOLE[:18] + b"plain",
    "confluent's frame": b"\0\0\0\0\7" + WHOLE[18:],
}


@pytest.mark.parametrize(
    "kinds", [["plain"], ["zlib"], ["plain", "zlib"], ["plain", "null"], ["null"], ["plain", "zlib", "null", "bad"]]
)
def test_rows_keep_their_places(kinds: list[str]) -> None:
    chooser = random.Random(3)
    met = [chooser.choice(kinds) for _ in range(300)]
    payloads: list[bytes | None] = []
    for number, kind in enumerate(met):
        good = encoded(order(number), compressed=kind == "zlib")
        payloads.append({"null": None, "bad": chooser.choice(list(BAD.values()))}.get(kind, good))
    array = pa.array([b"before", *payloads], pa.binary())[1:]
    decoded = DECODER.decode(array)
    assert decoded.rows.to_pylist() == [order(n) if kind in ("plain", "zlib") else None for n, kind in enumerate(met)]
    expected = {"null": Status.NULL, "bad": Status.BAD_FRAME}
    assert decoded.status.tolist() == [expected.get(kind, Status.DECODED) for kind in met]


def test_no_payloads_are_no_rows() -> None:
    assert len(DECODER.decode(pa.array([], pa.binary())).rows) == 0


@pytest.mark.parametrize("payload", BAD.values(), ids=BAD)
def test_what_has_no_such_header_or_is_damaged_is_explained(payload: bytes) -> None:
    error = DECODER.explain(payload)
    assert error.status == Status.BAD_FRAME
    assert ("zlib" if has_glue_frame(payload) else "Glue's header") in error.message


@pytest.mark.parametrize("compressed", [False, True])
def test_an_error_behind_the_header_is_the_decoders_own(compressed: bool) -> None:
    payload = framed(b"\2\7", compressed=compressed)
    decoded = DECODER.decode(pa.array([payload, WHOLE], pa.binary()))
    assert decoded.status.tolist() == [Status.MALFORMED, Status.DECODED]
    assert DECODER.explain(payload).path == "note"


def test_a_stream_of_any_length_takes_only_so_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue, "_MOST_BYTES", 1000)
    payload = framed(bytes(1001), compressed=True)
    assert DECODER.decode(pa.array([payload], pa.binary())).status.tolist() == [Status.BAD_FRAME]
    assert "of at most 1,000 bytes" in DECODER.explain(payload).message
    assert DECODER.decode(pa.array([encoded(order(900), compressed=True)], pa.binary())).status.tolist() == [0]


def test_many_streams_take_only_so_much_memory_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(glue, "_MOST_BYTES", 1000)
    inflated: list[int] = []
    monkeypatch.setattr(glue, "_inflated", lambda payload, own=glue._inflated: (inflated.append(1), own(payload))[1])
    payloads = pa.array([encoded(order(400), compressed=True)] * 100, pa.binary())
    with pytest.raises(TooLargeForOneBatch):
        DECODER.decode(payloads)
    assert len(inflated) == 3
    assert DECODER.decode(payloads[:2]).rows.to_pylist() == [order(400)] * 2
