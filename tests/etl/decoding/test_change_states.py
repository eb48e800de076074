"""Of a change event, the state that is not the row's is not judged: in every format, by both decoders."""

from __future__ import annotations

import base64
import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from kseg.etl.decoding.bad_records import MAX_EXAMPLES, BadRecords
from kseg.etl.decoding.change_states import ChangeStates, Event
from kseg.etl.decoding.errors import TooManyDeadLetters, TooManyNulled, UndecodablePayload
from kseg.etl.decoding.formats.avro import AvroSchemas
from kseg.etl.decoding.formats.json import JsonSchemas
from kseg.etl.decoding.formats.protobuf import ProtobufSchemas
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.payload import PayloadPlan
from kseg.etl.decoding.rules import FIRST
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.transform.decode import DecodeStep
from kseg.segment_reader.payload.protobuf.compiler import compile_text

ROWS = DecodeOptions(addresses=True).schema
ADDRESS = {"topic": "people", "partition": 1, "offset": 5}
IGNORE = (("unknown_fields", "ignore"),)
COLUMNS = (("id", "int"), ("n", "struct<name:string,other:string>"))


@dataclass(frozen=True)
class Form:
    """A format with an encoder. bad: no value of the column `n.name`. op: no value of `op`."""

    plan: PayloadPlan
    encode: Callable[[dict[str, Any]], bytes]
    bad: Any = 5
    good: Any = "x"


def plan(form: str, **options: Any) -> PayloadPlan:
    return PayloadPlan("value", form, "value", **{"envelope": "debezium", "json": IGNORE, **options})


def in_json(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


SCHEMA = {
    "type": "object",
    "properties": {
        **{state: {"$ref": "#/definitions/row"} for state in ("before", "after")},
        "source": {"type": "object", "properties": {"ts_ms": {"type": "integer"}}},
        "op": {"type": "string"},
        "ts_ms": {"type": "integer"},
    },
    "definitions": {
        "row": {
            "type": ["object", "null"],
            "properties": {
                "id": {"type": "integer"},
                "n": {
                    "type": ["object", "null"],
                    "properties": {"name": {"type": "string"}, "other": {"type": "string"}},
                },
            },
        }
    },
}


def avro(text: str, *more: str) -> dict[str, Any]:
    """more: names of further fields of a row's struct, and one of the source."""
    inner = {
        "type": "record",
        "name": "N",
        "fields": [{"name": name, "type": text} for name in ("name", "other", *more)],
    }
    row = {
        "type": "record",
        "name": "Row",
        "fields": [{"name": "id", "type": "int"}, {"name": "n", "type": ["null", inner], "default": None}],
    }
    of_source = [{"name": "ts_ms", "type": "long"}, *({"name": name, "type": text} for name in more)]
    source = {"type": "record", "name": "Source", "fields": of_source}
    fields = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Row"], "default": None},
        {"name": "source", "type": ["null", source], "default": None},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None},
    ]
    return {"type": "record", "name": "Envelope", "fields": fields}


def in_avro(event: dict[str, Any], *more: str) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(avro("bytes", *more)), event)
    return out.getvalue()


PROTO = """
syntax = "proto3";
message N { string name = 1; string other = 2; }
message Row { int32 id = 1; N n = 2; }
message Source { int64 ts_ms = 1; }
message Envelope { Row before = 1; Row after = 2; Source source = 3; string op = 4; int64 ts_ms = 5; }
"""


def in_protobuf(event: dict[str, Any]) -> bytes:
    files = descriptor_pb2.FileDescriptorSet.FromString(
        compile_text(PROTO.replace("string name", "bytes name").replace("string other", "bytes other"))
    )
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    made = message_factory.GetMessageClass(pool.FindMessageTypeByName("Envelope"))
    return made(**{name: part for name, part in event.items() if part is not None}).SerializeToString()


COMPILED = base64.b64encode(compile_text(PROTO)).decode()
FRAME = b"\0\0\0\0\7"


def forms() -> dict[str, Form]:
    as_text = json.dumps(SCHEMA)
    of_avro, of_json, of_protobuf = AvroSchemas(), JsonSchemas(), ProtobufSchemas("Envelope")

    def framed(form: Any, text: str) -> FramedSchemas:
        return FramedSchemas(form.text(form.first(form.writer(text))), ((7, (text, ())),), form)

    schema = json.dumps(avro("string"))
    return {
        "json": Form(plan("json", columns=COLUMNS), in_json),
        "connect_json": Form(
            plan("connect_json", columns=COLUMNS), lambda event: in_json({"schema": None, "payload": event})
        ),
        "json_schema": Form(plan("json_schema", schema_text=as_text), in_json),
        "json_schema in a registry": Form(
            plan("json_schema", framed=framed(of_json, as_text)), lambda event: FRAME + in_json(event)
        ),
        "avro": Form(plan("avro", schema_text=schema), in_avro, b"\xff", b"x"),
        "avro in a registry": Form(
            plan("avro", framed=framed(of_avro, schema)), lambda event: FRAME + in_avro(event), b"\xff", b"x"
        ),
        "protobuf": Form(plan("protobuf", schema_text=COMPILED, message="Envelope"), in_protobuf, b"\xff", b"x"),
        "protobuf in a registry": Form(
            plan("protobuf", framed=framed(of_protobuf, COMPILED)),
            lambda event: FRAME + b"\x02\x06" + in_protobuf(event),
            b"\xff",
            b"x",
        ),
    }


FORMS = forms()


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Form:
    return FORMS[request.param]


@pytest.fixture(params=["fast", "reference"], autouse=True)
def engine(request: pytest.FixtureRequest) -> Any:
    return request.param


def applied(
    own: PayloadPlan,
    on_error: Any,
    *payloads: bytes,
    key: PayloadPlan | None = None,
    keys: list[bytes | None] | None = None,
    bad: BadRecords | None = None,
) -> tuple[list[dict[str, Any]], BadRecords]:
    plans = (own,) if key is None else (key, own)
    step: DecodeStep = pickle.loads(pickle.dumps(DecodeStep(plans, on_error=on_error)))
    rows = [{**ADDRESS, "offset": 5 + number, "value": payload} for number, payload in enumerate(payloads)]
    for row, each in zip(rows, keys or (), strict=False):
        row["key"] = each
    bad = bad or BadRecords()
    out = step.apply(pa.RecordBatch.from_pylist(rows, schema=ROWS), ADDRESS, bad)
    out.validate(full=True)
    assert out.schema == step.output_schema(ROWS)
    return out.to_pylist(), bad


def state(number: int, name: Any, other: Any) -> dict[str, Any]:
    return {"id": number, "n": {"name": name, "other": other}}


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "before": before, "after": after, "source": {"ts_ms": 1000}, "ts_ms": 2000}


@pytest.mark.parametrize("on_error", ["fail", "set_null", "dead_letter"])
def test_what_is_not_in_the_row_is_not_judged(form: Form, engine: Any, on_error: str) -> None:
    good, bad = state(1, form.good, form.good), state(2, form.bad, form.good)
    events = [
        event("c", None, good),
        event("u", bad, good),
        event("d", good, bad),
        event("r", bad, good),
        event("d", good, None),
    ]
    rows, found = applied(replace(form.plan, engine=engine), on_error, *map(form.encode, events))
    assert [(row["id"], row["n"]) for row in rows] == [(1, {"name": "x", "other": "x"})] * 5
    assert [row["_kseg_op"] for row in rows] == ["c", "u", "d", "r", "d"]
    assert {row["_kseg_source_ts"].timestamp() for row in rows} == {1}
    assert (found.counts.decoded, found.counts.nulled, found.counts.dead) == (5, 0, 0)


def test_nulls_are_named_as_the_row_has_them_and_a_record_counts_once(form: Form, engine: Any) -> None:
    good, bad, worse = (
        state(1, form.good, form.good),
        state(2, form.bad, form.good),
        state(3, form.bad, form.bad),
    )
    events = [event("u", worse, bad), event("d", worse, None), event("?", bad, bad), event("u", bad, good)]
    rows, found = applied(replace(form.plan, engine=engine), "set_null", *map(form.encode, events))
    assert [row["n"] for row in rows] == [
        {"name": None, "other": "x"},
        {"name": None, "other": None},
        None,
        {"name": "x", "other": "x"},
    ]
    assert (found.counts.nulled, found.counts.columns) == (3, {"n.name": 2, "n.other": 1, "*": 1})


@pytest.mark.parametrize(
    ("op", "where"), [("u", "after.n.name"), ("d", "before.n.name"), ("?", "op"), ("t", "after.n.name")]
)
def test_the_error_is_of_what_the_row_has(form: Form, engine: Any, op: str, where: str) -> None:
    bad = state(2, form.bad, form.good)
    with pytest.raises(UndecodablePayload) as caught:
        applied(replace(form.plan, engine=engine), "fail", form.encode(event(op, bad, bad)))
    assert caught.value.path.removeprefix("payload.") == where


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of the events that are judged. Each look is a thousand times as slow as the decoder."""
    rows: list[int] = []
    real = ChangeStates.event

    def noted(self: ChangeStates, records: pa.RecordBatch, row: int) -> Event:
        rows.append(row)
        return real(self, records, row)

    monkeypatch.setattr(ChangeStates, "event", noted)
    return rows


BAD_STATE, GOOD_STATE = state(2, 5, "x"), state(1, "x", "x")
SOUND, WRONG = event("u", BAD_STATE, GOOD_STATE), event("u", GOOD_STATE, BAD_STATE)


def test_a_run_that_fails_looks_no_further(engine: Any, looked: list[int]) -> None:
    with pytest.raises(UndecodablePayload) as caught:
        applied(replace(JSON, engine=engine), "fail", *map(in_json, [SOUND, SOUND, *[WRONG] * 5, SOUND]))
    assert caught.value.address["offset"] == 7
    assert set(looked) == {0, 1, 2}


@pytest.mark.parametrize("on_error", ["set_null", "dead_letter"])
@pytest.mark.parametrize("most", [0, 1, 3])
def test_a_run_with_too_many_errors_looks_no_further(engine: Any, looked: list[int], on_error: str, most: int) -> None:
    """And counts the events that it has judged, in the second batch as in the first."""
    bad = BadRecords(None, most=most, most_nulled=most)
    too_many = TooManyNulled if on_error == "set_null" else TooManyDeadLetters
    own = replace(JSON, engine=engine)
    if most:
        applied(own, on_error, *map(in_json, [SOUND, WRONG, SOUND]), bad=bad)
        looked.clear()
    with pytest.raises(too_many, match=f"at least {most + 1} records") as caught:
        applied(own, on_error, *map(in_json, [SOUND, *[WRONG, SOUND] * 9]), bad=bad)
    left = most - 1 if most else 0
    assert set(looked) <= set(range(2 * left + 2)), "each event up to the one with which the run is refused"
    assert len(caught.value.examples) == min(most + 1, 3)


def test_nulls_that_are_limited_are_those_of_records_that_land(engine: Any, looked: list[int]) -> None:
    """A record that is left out for its key has no nulls: with enough errors of others the run is refused."""
    key = PayloadPlan("key", "json", "key", (("k", "int"),), drop_nulls=True, engine=engine)
    bad = BadRecords(most_nulled=1)
    rows, found = applied(
        replace(JSON, engine=engine),
        "set_null",
        *map(in_json, [WRONG, WRONG, SOUND, WRONG]),
        key=key,
        keys=[None, None, b'{"k": 1}', b'{"k": 2}'],
        bad=bad,
    )
    assert [row["k"] for row in rows] == [1, 2]
    assert (found.counts.nulled, found.counts.dropped) == (1, 2)


def test_an_event_is_decoded_once_for_its_verdict_and_its_nulls(engine: Any, looked: list[int]) -> None:
    rows, found = applied(replace(JSON, engine=engine), "set_null", *map(in_json, [SOUND, *[WRONG] * 5, SOUND]))
    assert [row["n"]["name"] for row in rows] == ["x", *[None] * 5, "x"]
    assert (found.counts.nulled, found.counts.columns) == (5, {"n.name": 5})
    explained = list(range(1, 1 + MAX_EXAMPLES))
    assert sorted(looked) == sorted([*range(7), *explained])


def test_the_first_rules_judge_both_states(form: Form, engine: Any) -> None:
    payload = form.encode(event("u", state(2, form.bad, form.good), state(1, form.good, form.good)))
    with pytest.raises(UndecodablePayload) as caught:
        applied(replace(form.plan, engine=engine, rules=FIRST), "fail", payload)
    assert caught.value.path.removeprefix("payload.") == "before.n.name"


@pytest.mark.parametrize("rescue", [False, True])
def test_what_is_rescued_of_an_unused_state_is_judged(rescue: bool, engine: Any) -> None:
    """`_kseg_rescued` has the fields of both states that the row has no column for: a null there is one of the row."""
    form = AvroSchemas(rescue=rescue)
    reader, writer = (json.dumps(avro("string", *more)) for more in ((), ("extra",)))
    framed = FramedSchemas(form.text(form.first(form.writer(reader))), ((7, (writer, ())),), form)
    own = plan("avro", framed=framed, engine=engine)

    def payload(*extra: bytes, name: bytes = b"x") -> bytes:
        before, after, source = extra
        states = [{"id": 1, "n": {"name": n, "other": b"x", "extra": e}} for n, e in ((name, before), (b"x", after))]
        change = event("u", *states) | {"source": {"ts_ms": 1000, "extra": source}}
        return FRAME + in_avro(change, "extra")

    good, bad = b"x", b"\xff"
    payloads = [payload(bad, good, good), payload(good, good, bad), payload(good, good, good, name=bad)]
    rows, found = applied(own, "set_null", *payloads)
    assert [row["n"] for row in rows] == [{"name": "x", "other": "x"}] * 3
    assert (found.counts.nulled, found.counts.columns) == ((2, {"_kseg_rescued": 2}) if rescue else (0, {}))
    _, found = applied(own, "dead_letter", *payloads)
    assert found.counts.dead == (2 if rescue else 0)


# --- what only documents of JSON can be


JSON = FORMS["json"].plan


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ({"source": {"ts_ms": "soon"}}, {"_kseg_source_ts": 1}),
        ({"source": {"ts_ms": 10**18}}, {"_kseg_source_ts": 1}),
        ({"source": 5}, {"_kseg_source_ts": 1}),
        ({"ts_ms": []}, {"_kseg_connector_ts": 1}),
        ({"op": 5}, {"*": 1}),
        ({"op": None, "source": 5}, {"*": 1}),
        ({"after": 5}, {"*": 1}),
        ({"op": "d", "before": 5}, {"*": 1}),
        ({"op": "u", "before": 5}, {}),
        ({"op": "u", "before": {"id": "x", "n": []}, "source": 5}, {"_kseg_source_ts": 1}),
    ],
)
def test_members_of_the_envelope_are_named_by_their_columns(
    change: dict[str, Any], columns: dict[str, int], engine: Any
) -> None:
    payload = in_json(event("c", None, state(1, "x", "x")) | change)
    _, found = applied(replace(JSON, engine=engine), "set_null", payload)
    assert (found.counts.columns, found.counts.nulled) == (columns, len(columns))
    struct = replace(JSON, engine=engine, into_columns=False, column="row")
    _, found = applied(struct, "set_null", payload)
    assert found.counts.columns == {"row" if name == "*" else f"row.{name}": 1 for name in columns}


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"before": state(1, 5, "x"), "op": 5}, "op"),
        ({"before": state(1, 5, "x"), "after": 5}, "after"),
        ({"before": state(1, 5, "x"), "after": None}, "after"),
        ({"before": state(1, 5, "x"), "source": {"ts_ms": 10**18}}, "source.ts_ms"),
    ],
)
def test_errors_of_the_envelope_are_not_hidden_by_an_unused_state(
    change: dict[str, Any], where: str, engine: Any
) -> None:
    with pytest.raises(UndecodablePayload) as caught:
        applied(replace(JSON, engine=engine), "fail", in_json(event("u", None, state(1, "x", "x")) | change))
    assert caught.value.path == where


def test_a_broken_document_is_an_error_wherever_it_is(engine: Any) -> None:
    text = in_json(event("u", state(1, "x", "x"), state(1, "x", "x"))).replace(b'"x"', b'"\xff"', 1)
    _, found = applied(replace(JSON, engine=engine), "dead_letter", text)
    assert found.counts.dead == 1


def test_placeholders_in_a_column_that_is_no_text_are_judged_where_the_row_has_them(engine: Any) -> None:
    own = replace(JSON, engine=engine, columns=(("id", "int"), ("bio", "binary")), unavailable="text")
    lack = {"id": 1, "bio": base64.b64encode(b"__debezium_unavailable_value").decode()}
    there = {"id": 1, "bio": ""}
    payloads = [in_json(event(*each)) for each in (("u", lack, there), ("d", lack, there), ("u", there, lack))]
    rows, found = applied(own, "set_null", *payloads)
    assert [row["bio"] for row in rows] == [b"", None, None]
    assert (found.counts.columns, found.counts.nulled) == ({"bio": 2}, 2)


def test_documents_of_mongodb(engine: Any) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in ("before", "after", "op")}}
    own = plan("json_schema", schema_text=json.dumps(schema), engine=engine)
    events = [("u", 5, "{}"), ("d", "{}", 5), ("u", "{}", 5), ("d", 5, "{}")]
    payloads = [in_json({"op": op, "before": before, "after": after}) for op, before, after in events]
    rows, found = applied(own, "set_null", *payloads)
    assert [row["document"] for row in rows] == ["{}", "{}", None, None]
    assert (found.counts.columns, found.counts.nulled) == ({"document": 2}, 2)


def test_a_record_whose_key_and_value_are_broken_counts_once(engine: Any) -> None:
    key = PayloadPlan("key", "json", "key", (("k", "int"),), engine=engine)
    own = replace(JSON, engine=engine)
    _, found = applied(own, "set_null", b"{", b"{", in_json({"op": 5}), key=key, keys=[b"{", b'{"k": 1}', b"["])
    assert (found.counts.columns, found.counts.nulled) == ({"*": 3}, 3)
    _, found = applied(own, "set_null", b"{", key=replace(key, into_columns=False), keys=[b"{"])
    assert (found.counts.columns, found.counts.nulled) == ({"key": 1, "*": 1}, 1)
