"""Reading JSON with every decoder there is, which must agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.ddl import parse_columns
from kseg.segment_reader.payload.decoder import DecodedPayloads, Status
from kseg.segment_reader.payload.json.decoder import Engine, json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions

DECODERS: tuple[Engine, ...] = ("reference", "fast")

Rows = list[tuple[Status, dict[str, Any] | None]]


def _decode(declared: pa.StructType, payloads: pa.BinaryArray, *, skip: int = 0, **options: Any) -> DecodedPayloads:
    results: list[DecodedPayloads] = []
    for engine in DECODERS:
        decoder = json_decoder(declared, JsonOptions(**options), engine=engine)
        decoded = decoder.decode(payloads, skip=skip)
        decoded.rows.validate(full=True)
        assert decoded.rows.type == decoder.type
        assert len(decoded.rows) == len(decoded.status) == len(payloads)
        assert decoded.rows.is_null().to_pylist() == (decoded.status != Status.DECODED).tolist()
        results.append(decoded)
    for other in results[1:]:
        assert [Status(each) for each in other.status] == [Status(each) for each in results[0].status]
        assert other.rows.equals(results[0].rows), f"{other.rows}\n{results[0].rows}"
    return results[0]


@pytest.fixture(scope="session")
def decode() -> Callable[..., DecodedPayloads]:
    """decode(struct type, binary array, **options): by all decoders, their invariants checked."""
    return _decode


@pytest.fixture(scope="session")
def read() -> Callable[..., Rows]:
    """read({name: DDL type}, document, …, **options) -> each document's status and row."""

    def run(columns: dict[str, str], *documents: bytes | str | None, **options: Any) -> Rows:
        payloads = [each.encode() if isinstance(each, str) else each for each in documents]
        decoded = _decode(parse_columns(columns), pa.array(payloads, pa.binary()), **options)
        return [(Status(n), row) for n, row in zip(decoded.status, decoded.rows.to_pylist(), strict=True)]

    return run


@pytest.fixture(scope="session")
def explain() -> Callable[..., str]:
    """explain({name: DDL type}, document, **options) -> the error's text; all decoders agree."""

    def run(columns: dict[str, str], document: bytes | str, *, skip: int = 0, **options: Any) -> str:
        payload = document.encode() if isinstance(document, str) else document
        declared = parse_columns(columns)
        decoders = [json_decoder(declared, JsonOptions(**options), engine=engine) for engine in DECODERS]
        (error,) = {str(decoder.explain(payload, skip=skip)) for decoder in decoders}
        return error

    return run
