"""Documents with and without a registry's frame before them."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.framed import PlainFramedDecoder
from kseg.segment_reader.payload.json.decoder import Engine, json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions

DOCUMENT = b'{"id": 7}'
BY_ID = b"\0\0\0\0\x05" + DOCUMENT
BY_GUID = b"\1" + uuid.UUID(int=5).bytes + DOCUMENT


def decoder(engine: Engine = "reference") -> PlainFramedDecoder:
    return PlainFramedDecoder(
        json_decoder(parse_columns({"id": "bigint"}), JsonOptions(unknown_fields="ignore"), engine=engine)
    )


@pytest.mark.parametrize("engine", ["reference", "fast"])
@pytest.mark.parametrize(
    "payloads",
    [
        [],
        [None],
        [DOCUMENT],
        [BY_ID, None, BY_ID],
        [BY_ID, DOCUMENT, None, BY_GUID, BY_ID, b"\0\0", b"", b"\1abc", BY_GUID],
        [b"\0\0\0", BY_ID],
        [b"x", DOCUMENT],
    ],
)
def test_each_document_is_read_behind_its_frame(engine: Engine, payloads: list[bytes | None]) -> None:
    good = {DOCUMENT: Status.DECODED, BY_ID: Status.DECODED, BY_GUID: Status.DECODED, None: Status.NULL}
    bad = {b"": Status.TRUNCATED, b"x": Status.MALFORMED}
    decoded = decoder(engine).decode(pa.array(payloads, pa.binary()))
    assert decoded.status.tolist() == [(good | bad).get(each, Status.BAD_FRAME) for each in payloads]
    rows = [{"id": 7} if good.get(each) is Status.DECODED else None for each in payloads]
    assert decoded.rows.to_pylist() == rows


def test_errors_are_explained_behind_the_frame() -> None:
    assert decoder().explain(b"\0\0\0").status is Status.BAD_FRAME
    error = decoder().explain(b"\0\0\0\0\x05" + b'{"id": "x"}')
    assert (error.status, error.path) == (Status.WRONG_TYPE, "id")
