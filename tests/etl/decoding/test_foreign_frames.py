"""Frames of other serializers than Confluent's: found where the job file names them, recognised in errors else."""

from __future__ import annotations

import io
import json
import random
import uuid
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import yaml

from collected_letters import CollectedLetters
from kseg.etl.config.load import load_job
from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.formats.json import JsonSchemas
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas, UnknownKeys
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.transform.decode import DecodeStep, decode_step
from kseg.segment_reader.payload.decoder import Status

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
GLUE = bytes([3, 0]) + bytes(range(16))
LARGE = 2**40 + 5


def text(**fields: Any) -> str:
    listed = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "R", "fields": listed})


WRITERS = {1: text(id="long"), LARGE: text(id="int", a="string")}
READER = text(id="long", a=["null", "string"])
SCHEMAS = FramedSchemas(READER, tuple((key, (one, ())) for key, one in WRITERS.items()), closed=True, frame="apicurio")
ROWS = {1: {"id": 4, "a": None}, LARGE: {"id": 5, "a": "x"}}


def body(key: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(WRITERS[key])), ROWS[key])
    return out.getvalue()


def framed(key: int) -> bytes:
    """As Apicurio's serializer writes it with its default handler of ids."""
    return b"\0" + key.to_bytes(8, "big") + body(key)


def headers_of(*entries: tuple[str, bytes] | None) -> pa.ListArray:
    return pa.array([entry and [{"key": entry[0], "value": entry[1]}] for entry in entries], HEADERS)


def test_ids_of_eight_bytes_before_payloads() -> None:
    keys = random.Random(1).choices([1, LARGE, None], k=200)
    payloads = pa.array([None if key is None else framed(key) for key in keys], pa.binary())
    decoded = FramedDecoder(SCHEMAS).decode(payloads, None, "value")
    assert decoded.rows.to_pylist() == [None if key is None else ROWS[key] for key in keys]


@pytest.mark.parametrize("source", ["key", "value"])
@pytest.mark.parametrize("name", ["globalId", "contentId"])
def test_ids_in_headers_and_payloads_as_they_are(source: str, name: str) -> None:
    header = f"apicurio.{source}.{name}"
    headers = headers_of(
        (header, LARGE.to_bytes(8, "big")), None, ("other", b""), (header, (1).to_bytes(8, "big")), (header, b"\1")
    )
    payloads = pa.array([body(LARGE), framed(1), framed(LARGE), body(1), framed(1)], pa.binary())
    decoded = FramedDecoder(SCHEMAS).decode(payloads, headers, source)
    assert decoded.rows.to_pylist() == [ROWS[LARGE], ROWS[1], ROWS[LARGE], ROWS[1], None]
    assert decoded.status.tolist() == [0, 0, 0, 0, Status.BAD_FRAME]


def test_global_ids_in_headers_are_told_from_other_ids() -> None:
    """The same number is another schema as a global id, and each record has ids of its own kind."""
    schemas = replace(SCHEMAS, global_ids=True, writers=((1, (WRITERS[1], ())), ("global/1", (WRITERS[LARGE], ()))))
    one = (1).to_bytes(8, "big")
    headers = headers_of(
        ("apicurio.value.globalId", one), ("apicurio.value.contentId", one), None, ("apicurio.value.globalId", b"\1")
    )
    payloads = pa.array([body(LARGE), body(1), framed(1), body(1)], pa.binary())
    decoded = FramedDecoder(schemas).decode(payloads, headers, "value")
    assert decoded.rows.to_pylist() == [ROWS[LARGE], ROWS[1], ROWS[1], None]
    assert decoded.status.tolist() == [0, 0, 0, Status.BAD_FRAME]
    seven = (7).to_bytes(8, "big")
    headers = headers_of(("apicurio.value.globalId", seven), ("apicurio.value.contentId", seven))
    decoder = FramedDecoder(replace(schemas, closed=False))
    with pytest.raises(UnknownKeys) as unknown:
        decoder.decode(payloads[:2], headers, "value")
    assert unknown.value.keys == (7, "global/7")


@pytest.mark.parametrize("ids", ["content", "global"])
def test_ids_are_of_the_kind_that_the_job_file_says(ids: Any) -> None:
    """Before payloads; a header says itself of which kind its id is."""
    other, eight, guid = {"content": "global", "global": "content"}[ids], (8).to_bytes(8, "big"), bytes(range(16))
    writers = ((f"{ids}/8", (WRITERS[1], ())), (f"{other}/8", (WRITERS[LARGE], ())), (8, None))
    schemas = replace(SCHEMAS, writers=writers, ids=ids)
    headers = headers_of(None, (f"apicurio.value.{ids}Id", eight), (f"apicurio.value.{other}Id", eight))
    payloads = pa.array([b"\0" + eight + body(1), body(1), body(LARGE)], pa.binary())
    assert FramedDecoder(schemas).decode(payloads, headers, "value").rows.to_pylist() == [ROWS[1], ROWS[1], ROWS[LARGE]]
    assert (
        PayloadPlan("value", "avro", "value", framed=schemas, frame="apicurio").schema_id(records(payloads[0]), 0) == 8
    )
    # Apicurio's serializers of version 3 write frames of 4 bytes by default. GUIDs, and headers, are Confluent's own.
    schemas = replace(
        schemas, frame="confluent", writers=(*writers, (str(uuid.UUID(bytes=guid)), (WRITERS[LARGE], ())))
    )
    headers = headers_of(None, None, ("__value_schema_id", b"\0" + eight[4:]))
    payloads = pa.array([b"\0" + eight[4:] + body(1), b"\1" + guid + body(LARGE), body(1)], pa.binary())
    decoded = FramedDecoder(schemas).decode(payloads, headers, "value")
    assert decoded.rows.to_pylist() == [ROWS[1], ROWS[LARGE], None]
    assert decoded.status.tolist() == [0, 0, Status.UNKNOWN_SCHEMA]


@pytest.mark.parametrize("ids", [None, "content", "global"])
def test_an_error_names_the_key_where_the_id_may_be_of_the_other_kind(ids: Any) -> None:
    kind, told = f"{ids}/" if ids else "", f"`ids: {'content' if ids == 'global' else 'global'}`"
    writers = ((f"{kind}1" if ids else 1, (WRITERS[1], ())), (f"{kind}2" if ids else 2, None))
    decoder = FramedDecoder(replace(SCHEMAS, writers=writers, ids=ids))

    def message(payload: bytes, headers: pa.ListArray | None = None) -> str:
        return decoder.explain(payload, headers, "value").message

    unknown, two = b"\0" + (2).to_bytes(8, "big") + body(1), (2).to_bytes(8, "big")
    assert f"does not know the schema {kind}2" in message(unknown)
    assert told in message(unknown)
    # Where another schema was found by the id, its decoder fails. Once the job file says the kind, it is the record.
    assert (told in message(framed(1) + b"more")) == (ids is None)
    assert "`ids: " not in message(body(1), headers_of(("apicurio.value.contentId", two)))
    confluents = FramedDecoder(CONFLUENTS).explain(b"\0\0\0\0\1\2more", None, "value")
    assert "`ids: " not in confluents.message


def event_text() -> str:
    row = {
        "type": "record",
        "name": "Value",
        "fields": [{"name": "id", "type": "int"}, {"name": "a", "type": "string"}],
    }
    states = [{"name": "before", "type": ["null", row]}, {"name": "after", "type": ["null", "Value"]}]
    fields = [*states, {"name": "op", "type": ["null", "string"], "default": None}]
    return json.dumps({"type": "record", "name": "Envelope", "fields": fields})


def event_of(op: str | None, after: bytes | None, written: str = event_text()) -> bytes:
    out = io.BytesIO()
    row = None if after is None else {"id": 7, "a": "MARK"}
    fastavro.schemaless_writer(
        out, fastavro.parse_schema(json.loads(written)), {"before": None, "after": row, "op": op}
    )
    return b"\0" + (1).to_bytes(8, "big") + out.getvalue().replace(b"MARK", after or b"")


NOT_UTF8, JSON_SCHEMA = b"\xff\xff\xff\xff", json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}})


@pytest.mark.parametrize("rules", [FIRST, NEWEST])
@pytest.mark.parametrize("in_header", [False, True])
@pytest.mark.parametrize(
    ("payload", "status", "told"),
    [
        (event_of("c", NOT_UTF8), Status.INVALID_UTF8, False),
        (event_of("x", b"MARK"), Status.UNKNOWN_SYMBOL, False),
        (event_of("c", None), Status.MISSING_FIELD, False),
        (event_of(None, b"MARK"), Status.MISSING_FIELD, True),
        (event_of("c", b"MARK") + b"more", Status.TRAILING_BYTES, True),
        (event_of("c", NOT_UTF8) + b"more", None, True),
        (event_of("c", b"MARK")[:-3], Status.TRUNCATED, True),
    ],
    ids=["value", "operation", "no after", "no operation", "more", "value and more", "less"],
)
def test_an_event_has_the_hint_where_it_may_be_of_another_schema(
    payload: bytes, status: Status | None, told: bool, in_header: bool, rules: DecodingRules
) -> None:
    """A value in a payload that is one of its schema is no sign of another one; nor is anything where a header has the
    id, with its kind."""
    schemas = FramedSchemas(event_text(), ((1, (event_text(), ())),), closed=True, frame="apicurio")
    plan = PayloadPlan("value", "avro", "value", framed=schemas, frame="apicurio", envelope="debezium", rules=rules)
    headers = headers_of(("apicurio.value.contentId", payload[1:9]) if in_header else None)
    columns = {"key": pa.nulls(1, pa.binary()), "value": pa.array([payload[9:] if in_header else payload], pa.binary())}
    batch = pa.RecordBatch.from_pydict(columns | {"headers": headers})
    found = Status(int(plan.decode(batch).status[0]))
    assert found > Status.NULL
    error = plan.explain(batch, 0, found)
    assert status in (None, error.status)
    assert error.message.count("`ids: global`") == int(told and not in_header)


@pytest.mark.parametrize(
    ("document", "told"),
    [(b'{"id": "x"}', True), (b'{"id": 1.5}', True), (b'{"id": 1', False), (b'{"id": 1} x', False), (b"[", False)],
)
def test_a_document_has_the_hint_where_its_values_are_of_other_types(document: bytes, told: bool) -> None:
    """Of a document's grammar no schema says anything."""
    form = JsonSchemas()
    reader = form.text(form.first(form.writer(JSON_SCHEMA)))
    schemas = FramedSchemas(reader, ((1, (JSON_SCHEMA, ())),), form, closed=True, frame="apicurio")
    error = FramedDecoder(schemas).explain(b"\0" + (1).to_bytes(8, "big") + document, None, "value")
    assert ("`ids: global`" in error.message) is told, error


def test_headers_of_the_other_side_name_no_schema() -> None:
    headers = headers_of(("apicurio.key.globalId", LARGE.to_bytes(8, "big")))
    decoded = FramedDecoder(SCHEMAS).decode(pa.array([framed(1)], pa.binary()), headers, "value")
    assert decoded.rows.to_pylist() == [ROWS[1]]


CONFLUENTS = FramedSchemas(READER, ((0, None), (1, (WRITERS[1], ()))), closed=True)


@pytest.mark.parametrize(
    ("payload", "headers", "told"),
    [
        (GLUE + b"\2", headers_of(None), "`frame: glue`, with `schema: {file: …}`"),
        (body(1), headers_of(("apicurio.value.globalId", bytes(8))), "headers of Apicurio's serializer"),
        (framed(1), None, "Apicurio's frame, an id of 8 bytes: `frame: apicurio`"),
        (b"\2text", headers_of(None), None),
        (b"\0\0\0\0\0\0\0\0\0\0", None, None),
    ],
    ids=["glue", "headers", "eight bytes", "none", "zeros"],
)
def test_an_error_names_the_frame_that_it_recognises(
    payload: bytes, headers: pa.ListArray | None, told: str | None
) -> None:
    error = FramedDecoder(CONFLUENTS).explain(payload, headers, "value")
    assert error.status in (Status.BAD_FRAME, Status.UNKNOWN_SCHEMA)
    assert (told in error.message) if told else ("`frame:" not in error.message)


CONFLUENTS_ID = b"\0" + (7).to_bytes(4, "big")


@pytest.mark.parametrize("frame", ["apicurio", "glue"])
@pytest.mark.parametrize(
    ("payload", "headers", "told"),
    [
        (CONFLUENTS_ID + b"\2\4text", None, "Confluent's frame, an id of 4 bytes: `frame: confluent`"),
        (CONFLUENTS_ID + b"\2", None, "Confluent's frame, an id of 4 bytes: `frame: confluent`"),
        (b"\1" + bytes(range(16)) + b"\2", None, "Confluent's frame, a GUID: `frame: confluent`"),
        (b"\2", headers_of(("__value_schema_id", CONFLUENTS_ID)), "headers of Confluent's serializer"),
        (b"\2", None, None),
    ],
    ids=["id", "id and one byte", "GUID", "header", "none"],
)
def test_confluents_frames_are_recognised_where_another_is_named(
    frame: Any, payload: bytes, headers: pa.ListArray | None, told: str | None
) -> None:
    if frame == "apicurio":
        plan = PayloadPlan("value", "avro", "value", framed=replace(SCHEMAS, closed=False), frame=frame)
    else:
        plan = PayloadPlan("value", "avro", "value", schema_text=READER, frame=frame)
    names = HEADERS if headers is None else headers.type
    columns = {"key": pa.nulls(1, pa.binary()), "value": pa.array([payload], pa.binary())}
    batch = pa.RecordBatch.from_pydict(columns | {"headers": pa.nulls(1, names) if headers is None else headers})
    assert plan.decode(batch).status.tolist() == [Status.BAD_FRAME]
    message = plan.explain(batch, 0).message
    assert (told in message) if told else ("`frame:" not in message)


@pytest.mark.parametrize("ids", [None, "content", "global"])
def test_confluents_ids_read_as_eight_bytes_are_asked_of_no_registry(ids: Any) -> None:
    """Each record has an id of its own then: its first bytes are part of it."""
    payloads = pa.array([CONFLUENTS_ID + bytes([n]) * 9 for n in range(1, 50)] + [framed(LARGE)], pa.binary())
    writers = tuple((f"{ids}/{key}" if ids else key, texts) for key, texts in SCHEMAS.writers)
    decoder = FramedDecoder(replace(SCHEMAS, closed=False, ids=ids, writers=writers))
    decoded = decoder.decode(payloads, None, "value")
    assert decoded.status.tolist() == [Status.BAD_FRAME] * 49 + [Status.DECODED]


@pytest.mark.parametrize("number", [0, 6, 2**32 - 1])
def test_ids_that_fit_into_four_bytes_and_those_in_headers_are_asked_for(number: int) -> None:
    decoder = FramedDecoder(replace(SCHEMAS, closed=False))
    with pytest.raises(UnknownKeys):
        decoder.decode(pa.array([b"\0" + number.to_bytes(8, "big")], pa.binary()), None, "value")
    header = headers_of(("apicurio.value.globalId", (2**48 + number).to_bytes(8, "big")))
    with pytest.raises(UnknownKeys):
        decoder.decode(pa.array([body(1)], pa.binary()), header, "value")


class CountedWriters(tuple[Any, ...]):
    """Schemas by id, which count how often all of them are looked at."""

    looks = 0

    def __iter__(self) -> Any:
        CountedWriters.looks += 1
        return super().__iter__()


def test_a_batch_does_not_look_at_all_schemas_that_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CountedWriters, "looks", 0)
    decoder = FramedDecoder(replace(SCHEMAS, writers=CountedWriters(SCHEMAS.writers)))

    def looks_of_a_batch() -> int:
        before = CountedWriters.looks
        decoder.decode(pa.array([framed(1), framed(LARGE)], pa.binary()), None, "value")
        return CountedWriters.looks - before

    assert (looks_of_a_batch(), looks_of_a_batch(), looks_of_a_batch()) == (1, 0, 0)


# -- by a job file


@pytest.fixture
def step_of(tmp_path: Path) -> Callable[..., DecodeStep]:
    """The step of a job whose values are Avro of a schema file, with more of `decode.value`."""
    (tmp_path / "order.avsc").write_text(WRITERS[1])

    def make(**more: Any) -> DecodeStep:
        value = {"format": "avro", "schema": {"file": "order.avsc"}} | more
        job = {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "a:1"},
            "source": {"topics": ["orders"]},
            "decode": {"value": value},
            "sink": {"path": "./lake"},
            "ledger": "./ledger",
        }
        (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
        decode = load_job(tmp_path / "job.yaml", env={}).decode
        assert decode is not None
        step = decode_step(decode)
        assert isinstance(step, DecodeStep)
        return step

    return make


def records(*values: bytes) -> pa.RecordBatch:
    columns = {"key": pa.nulls(len(values), pa.binary()), "value": pa.array(values, pa.binary())}
    return pa.RecordBatch.from_pydict(columns | {"headers": pa.nulls(len(values), HEADERS)})


def value_plan(step: DecodeStep) -> PayloadPlan:
    (plan,) = step.payloads
    return plan


def test_a_job_decodes_glues_payloads_by_a_schema_file(step_of: Callable[..., DecodeStep]) -> None:
    packed = bytes([3, 5]) + bytes(16) + zlib.compress(body(1))
    decoded = value_plan(step_of(frame="glue")).decode(records(GLUE + body(1), packed))
    assert decoded.rows.to_pylist() == [{"id": 4}, {"id": 4}]


def test_a_job_that_does_not_name_the_frame_is_told_of_it(step_of: Callable[..., DecodeStep]) -> None:
    plan, batch = value_plan(step_of()), records(GLUE + body(1))
    status = Status(plan.decode(batch).status[0])
    assert status > Status.NULL
    assert "`frame: glue`" in plan.explain(batch, 0, status).message


def test_a_dead_letter_has_the_schemas_id_of_eight_bytes() -> None:
    plan = PayloadPlan("value", "avro", "value", framed=SCHEMAS, frame="apicurio")
    assert plan.schema_id(records(framed(LARGE)), 0) == LARGE


def test_a_dead_letter_has_the_number_of_a_global_id() -> None:
    plan = PayloadPlan("value", "avro", "value", framed=replace(SCHEMAS, global_ids=True), frame="apicurio")
    header = headers_of(("apicurio.value.globalId", (9).to_bytes(8, "big")))
    assert plan.schema_id(records(body(1)).set_column(2, "headers", header), 0) == 9


def test_a_dead_letters_id_is_that_of_the_header_or_null_where_the_column_is_too_small() -> None:
    def found(frame: Any, headers: list[dict[str, Any]] | None, payload: bytes) -> list[Any]:
        plan = PayloadPlan("value", "avro", "value", framed=replace(SCHEMAS, frame=frame), frame=frame)
        step = DecodeStep((plan,), on_error="dead_letter")
        letters = CollectedLetters()
        row = {"topic": "t", "partition": 0, "offset": 1, "value": payload, "headers": headers}
        step.apply(pa.RecordBatch.from_pylist([row], schema=DecodeOptions().schema), {}, BadRecords(letters))
        return [(letter["schema_id"], letter["error"]) for letter in letters.rows]

    in_header = [{"key": "__value_schema_id", "value": b"\0\0\0\0\5"}]
    assert found("confluent", None, b"\0\0\0\0\7x") == [(7, "UNKNOWN_SCHEMA")]
    assert found("confluent", in_header, b"\0\0\0\0\7x") == [(5, "UNKNOWN_SCHEMA")]
    assert found("apicurio", None, framed(LARGE)[:9]) == [(None, "TRUNCATED")]
    assert found("apicurio", None, b"\0" + b"\x7f" * 8) == [(None, "BAD_FRAME")]
    assert found("apicurio", None, b"\0" + (2**31).to_bytes(8, "big")) == [(None, "UNKNOWN_SCHEMA")]
    assert found("apicurio", None, b"\0" + (2**31 - 1).to_bytes(8, "big")) == [(2**31 - 1, "UNKNOWN_SCHEMA")]
