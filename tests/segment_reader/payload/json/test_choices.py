"""Choices of objects: the reference decoder and the compiled one find the same member, or the same error."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, Status
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.shape import JsonOptions
from kseg.segment_reader.payload.json_schema import read_json_schema
from kseg.segment_reader.payload.plain import Nulling

INT, TEXT, DATE = {"type": "integer"}, {"type": "string"}, {"type": "string", "format": "date"}


def decoders(schema: Any) -> list[PayloadDecoder]:
    read = read_json_schema(json.dumps(schema))
    options = JsonOptions(formats=read.formats, choices=read.choices, unknown_fields="ignore")
    return [json_decoder(read.type, options, engine=engine) for engine in ("fast", "reference")]


def decoded(schema: Any, *documents: Any, skip: int = 0) -> DecodedPayloads:
    """By both decoders, which must agree. documents: values, or bytes as they are."""
    texts = [each if isinstance(each, bytes | None) else json.dumps(each).encode() for each in documents]
    payloads = pa.array([None if each is None else b"\0" * skip + each for each in texts], pa.binary())
    fast, plain = (one.decode(payloads, skip=skip) for one in decoders(schema))
    assert fast.status.tolist() == plain.status.tolist()
    assert fast.rows.to_pylist() == plain.rows.to_pylist()
    assert fast.rows.type == plain.rows.type
    return fast


def member(properties: Any, *required: str, **further: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(required), **further}


def choice(**members: Any) -> dict[str, Any]:
    return {"oneOf": [{"title": name, **its} for name, its in members.items()]}


BY_CONST = choice(
    Order=member({"kind": {"const": "order"}, "id": INT}, "kind"),
    Payment=member({"kind": {"enum": ["payment", "refund"]}, "id": INT, "at": DATE}, "kind"),
)
BY_REQUIRED = choice(Circle=member({"radius": INT}, "radius"), Square=member({"side": INT, "name": TEXT}, "side"))
CLOSED = choice(
    A=member({"id": INT, "a": INT}, "id", additionalProperties=False),
    B=member({"id": INT, "b": INT}, "id", additionalProperties=False),
)
BY_NUMBER = choice(One=member({"v": {"const": 1}, "x": INT}), Two=member({"v": {"enum": [2, True, None]}, "x": TEXT}))


@pytest.mark.parametrize(
    ("schema", "document", "name"),
    [
        (BY_CONST, {"kind": "order", "id": 1}, "Order"),
        (BY_CONST, {"kind": "payment", "at": "2024-02-29"}, "Payment"),
        (BY_CONST, {"kind": "refund"}, "Payment"),
        (BY_CONST, b'{"kind": "o\\u0072der", "id": 1}', "Order"),
        (BY_CONST, {"kind": "order", "at": "no date: not this member's"}, "Order"),
        (BY_REQUIRED, {"radius": 1}, "Circle"),
        (BY_REQUIRED, {"side": 1, "name": None}, "Square"),
        (BY_REQUIRED, {"radius": None}, "Circle"),
        (BY_REQUIRED, {"side": None, "name": "null"}, "Square"),
        (CLOSED, {"id": 1, "a": 2}, "A"),
        (CLOSED, {"id": 1, "b": None}, "B"),
        (BY_NUMBER, {"v": 1, "x": 3}, "One"),
        (BY_NUMBER, b'{"v": 1.0, "x": 3}', "One"),
        (BY_NUMBER, {"v": True, "x": "y"}, "Two"),
    ],
)
def test_an_object_is_the_member_that_its_properties_show(schema: Any, document: Any, name: str) -> None:
    for skip in (0, 5):
        found = decoded(schema, document, skip=skip)
        assert found.status.tolist() == [Status.DECODED]
        (row,) = found.rows.to_pylist()
        assert [each for each, value in row.items() if value is not None] == [name]
        values = json.loads(document) if isinstance(document, bytes) else document
        assert all(values.get(each) == value for each, value in row[name].items() if each not in ("at", "v"))


@pytest.mark.parametrize(
    ("schema", "document", "path", "words"),
    [
        (BY_CONST, {"kind": "other"}, "", 'no member of the choice (Order: kind is "other"; Payment: kind is "other")'),
        (BY_CONST, {"id": 1}, "", "no member of the choice (Order: kind is missing; Payment: kind is missing)"),
        (BY_CONST, {"kind": None}, "", "may be any of Order, Payment"),
        (BY_REQUIRED, {"radius": 1, "side": 1}, "", "may be any of Circle, Square"),
        (BY_REQUIRED, {}, "", "Circle: radius is missing; Square: side is missing"),
        (CLOSED, {"id": 1}, "", "may be any of A, B"),
        (CLOSED, {"id": 1, "a": 1, "b": 1}, "", "A: b is not allowed; B: a is not allowed"),
        (BY_NUMBER, b'{"v": ' + 5000 * b"9" + b"}", "", "no member of the choice (One: v is 9999"),
        (BY_CONST, {"kind": "order", "id": "x"}, "Order.id", "a string is no bigint"),
        (BY_CONST, {"kind": "payment", "at": "x"}, "Payment.at", "no date"),
        (BY_CONST, [], "", "an array"),
    ],
)
def test_an_object_that_shows_no_member_is_an_error_that_says_why(
    schema: Any, document: Any, path: str, words: str
) -> None:
    field = {"type": "object", "properties": {"n": INT, "f": {"type": "array", "items": schema}}}
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    for whole, payload, prefix in ((schema, text, ""), (field, b'{"n": 1, "f": [null, ' + text + b"]}", "f[1]")):
        assert decoded(whole, payload, None).status.tolist() == [Status.WRONG_TYPE, Status.NULL]
        for decoder in decoders(whole):
            error = decoder.explain(payload)
            assert error.path == f"{prefix}.{path}".strip(".")
            assert words in error.message


def test_a_discriminator_that_is_written_twice_is_an_error() -> None:
    twice = b'{"kind": "order", "kind": "payment"}'
    assert decoded(BY_CONST, twice).status.tolist() == [Status.DUPLICATE_KEY]
    assert decoded(BY_REQUIRED, b'{"radius": 1, "side": 1, "side": 2}').status.tolist() == [Status.DUPLICATE_KEY]


def random_value(random: random.Random, depth: int = 0) -> Any:
    if depth < 2 and random.random() < 0.2:
        return [random_value(random, depth + 1) for _ in range(random.randrange(3))]
    return random.choice([None, 1, 2, "order", "payment", "x", True, "null", "2024-02-29"])


def random_object(random: random.Random) -> bytes:
    names = random.choices(["kind", "id", "at", "radius", "side", "v", "x", "a"], k=random.randrange(5))
    return ("{" + ",".join(f"{json.dumps(name)}:{json.dumps(random_value(random))}" for name in names) + "}").encode()


def test_both_decoders_agree_on_any_documents_and_at_any_depth(scale: Any) -> None:
    made = random.Random(20261128)
    within = choice(Inner=member({"at": INT, "id": BY_CONST}, "at"), Other=member({"x": {"anyOf": BY_NUMBER["oneOf"]}}))
    members = [BY_CONST, BY_REQUIRED, CLOSED, BY_NUMBER, within]
    for one in members:
        schema = {
            "type": "object",
            "properties": {
                "f": one,
                "list": {"type": "array", "items": one},
                "map": {"type": "object", "additionalProperties": one},
                "n": INT,
            },
        }
        documents = [
            random.choice([b"", b" "]) + b'{"list":[' + b",".join(random_object(made) for _ in range(made.randrange(4)))
            + b'],"map":{"k":' + random_object(made) + b'},"f":' + made.choice([random_object(made), b"null", b"3"])
            + made.choice([b"", b',"n":1', b',"n":"x"', b","]) + b"}"
            for _ in range(scale(150, 2000))
        ]  # fmt: skip
        found = decoded(schema, *documents, None)
        assert len(set(found.status.tolist())) >= 3
        decoded(one, *(random_object(made) for _ in range(scale(150, 2000))), None, b"{")


def test_only_what_cannot_be_decided_is_null_where_errors_are_nulls() -> None:
    schema = {"type": "object", "properties": {"n": INT, "f": BY_CONST, "list": {"type": "array", "items": BY_CONST}}}
    read = read_json_schema(json.dumps(schema))
    options = JsonOptions(formats=read.formats, choices=read.choices, unknown_fields="ignore")
    nulling = Nulling()
    order, other = {"kind": "order", "id": 1}, {"kind": "other"}
    document = {"n": 1, "f": other, "list": [order, other, {"kind": "payment", "at": "x"}]}
    found = json_decoder(read.type, options, engine=nulling).decode(pa.array([json.dumps(document).encode()]))
    (row,) = found.rows.to_pylist()
    assert (row["n"], row["f"], row["list"][0]["Order"], row["list"][1]) == (1, None, order, None)
    assert row["list"][2]["Payment"] == {"kind": "payment", "id": None, "at": None}
    assert nulling.places == {"f": 1, "list[]": 1, "list[].Payment.at": 1}


def test_rescued_fields_are_those_that_the_member_lacks() -> None:
    """For commands that show single payloads."""
    read = read_json_schema(json.dumps({"type": "object", "properties": {"f": BY_CONST}}))
    decoder = json_decoder(read.type, JsonOptions(formats=read.formats, choices=read.choices), engine="reference")
    found = decoder.decode(pa.array([b'{"f": {"kind": "order", "id": 1, "new": 2}}']))
    assert found.rows.to_pylist()[0]["_kseg_rescued"] == '{"f":{"new": 2}}'
