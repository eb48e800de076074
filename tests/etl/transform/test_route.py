"""Routes of records: what decides, what matches, what has none; and that it does not depend on batches."""

from __future__ import annotations

import json
import pickle
import struct
import uuid
import zlib
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.config.decoding import Decode
from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.errors import NoRouteForRecord
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.kinds import Kind
from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import ROUTE_COLUMN
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.tasks.error_json import error_document, error_of_document
from kseg.etl.transform.decode import decode_step
from kseg.etl.transform.route import RouteStep, as_landed
from kseg.etl.transform.step import BatchStep
from kseg.etl.transform.transform import BatchSteps

SCHEMA = DecodeOptions(headers=True, addresses=True).schema
ADDRESS = {"topic": "orders", "partition": 1, "offset": 5}
COLUMNS = {"kind": "string", "number": "bigint", "flag": "boolean", "at": "struct<place:string>", "price": "double"}


def records(
    *given: tuple[bytes | None, list[tuple[str, bytes | None]] | None], key: bytes | None = None
) -> pa.RecordBatch:
    """Of each record its value and headers."""
    rows = [
        {
            "key": key,
            "value": value,
            "topic": "orders",
            "partition": 1,
            "offset": 5 + 2 * number,
            "timestamp": number,
            "timestampType": 0,
            "headers": None if headers is None else [{"key": name, "value": text} for name, text in headers],
            "_kseg_topic": "orders",
            "_kseg_partition": 1,
            "_kseg_offset": 5 + 2 * number,
        }
        for number, (value, headers) in enumerate(given)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def values(*given: Any) -> pa.RecordBatch:
    return records(*((None if value is None else json.dumps(value).encode(), None) for value in given))


def by(route_by: str, *routes: str, **decode: Any) -> RouteStep:
    kind, _, name = route_by.partition(".")
    given = {"value": {"format": "json", "schema": {"columns": COLUMNS}}} | decode
    inner = decode_step(Decode.model_validate(given)) if kind in ("key", "value") else None
    return RouteStep(kind, name, routes, inner)  # type: ignore[arg-type]


def routes_of(step: BatchStep, batch: pa.RecordBatch, bad: BadRecords | None = None) -> list[str | None]:
    out = pickle.loads(pickle.dumps(step)).apply(batch, ADDRESS, bad)
    assert out.schema == step.output_schema(SCHEMA)
    out.validate(full=True)
    return list(out.column(ROUTE_COLUMN).to_pylist())


def test_a_value_takes_the_route_that_is_written_like_it() -> None:
    batch = values({"kind": "a", "number": 1, "flag": True}, {"kind": "A", "number": -17}, {"number": 17}, {}, None)
    assert routes_of(by("value.kind", "a", "*"), batch) == ["a", "*", "*", "*", "*"]
    assert routes_of(by("value.number", "1", "17", "*"), batch) == ["1", "*", "17", "*", "*"]
    assert routes_of(by("value.flag", "true", "*"), batch) == ["true", "*", "*", "*", "*"]


def test_fields_within_a_record_are_named_with_dots() -> None:
    batch = values({"at": {"place": "x"}}, {"at": None}, {"at": {"place": "y"}})
    assert routes_of(by("value.at.place", "x", "*"), batch) == ["x", "*", "*"]
    whole = by("value.at.place", "x", "*", value={"format": "json", "schema": {"columns": COLUMNS}, "into": "struct"})
    assert routes_of(whole, batch) == ["x", "*", "*"]


def test_a_field_has_its_name_in_the_payload() -> None:
    renamed = {"format": "json", "schema": {"columns": COLUMNS}, "rename": {"kind": "sort"}}
    step = by("value.kind", "a", "*", value=renamed)
    assert "sort" in step.output_schema(SCHEMA).names
    assert routes_of(step, values({"kind": "a"})) == ["a"]


def test_a_key_that_is_no_record_is_named_by_its_column() -> None:
    step = by("key.id", "7", "*", key={"format": "string", "as": "id"})
    assert routes_of(step, records((b"{}", None), key=b"7")) == ["7"]


@pytest.mark.parametrize(
    ("route_by", "message"),
    [
        ("value.kinds", "names the field kinds"),
        ("value.at", "value.at is struct"),
        ("value.price", "value.price is double"),
        ("value.at.city", "names a field city"),
        ("value.kind.x", "names a field x"),
        ("key.id", "is a field of the key, which is not decoded"),
    ],
)
def test_what_is_no_field_to_route_by_is_refused(route_by: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        by(route_by, "*").output_schema(SCHEMA)


def test_the_last_header_of_the_name_decides() -> None:
    batch = records(
        (b"", [("kind", b"a"), ("other", b"b"), ("kind", b"b")]),
        (b"", None),
        (b"", [("kind", b"\xff")]),
        (b"", [("kind", None)]),
        (b"", [("KIND", b"a")]),
        (b"", [("kind", b"a")]),
    )
    step = RouteStep("header", "kind", ("a", "b", "*"))
    assert routes_of(step, batch) == ["b", "*", "*", "*", "*", "a"]
    assert routes_of(step, batch.slice(2, 4)) == ["*", "*", "*", "a"]
    assert routes_of(step, batch.slice(0, 0)) == []


def test_the_id_of_the_values_schema_decides() -> None:
    guid = uuid.UUID(int=7)
    batch = records(
        (b"\0" + struct.pack(">i", 17) + b"x", None),
        (b"\1" + guid.bytes + b"x", None),
        (b"x", [("__value_schema_id", b"\0" + struct.pack(">i", 3))]),
        (b"x", None),
        (None, None),
    )
    step = RouteStep("schema", "", ("17", "3", str(guid), "*"))
    assert routes_of(step, batch) == ["17", str(guid), "3", "*", "*"]


def test_frames_of_other_serializers_decide_as_their_schemas_are_decoded() -> None:
    """Glue's schema is named by compressed payloads too, and Apicurio's global ids are told from other ids."""
    guid, order, payment = str(uuid.UUID(int=7)), (avro("Order", "id"), ()), (avro("Payment", "id"), ())
    header = bytes([3, 0]) + uuid.UUID(guid).bytes
    compressed = bytes([3, 5]) + uuid.UUID(guid).bytes + zlib.compress(b"\2")
    seven = (7).to_bytes(8, "big")

    def step(frame: str, *writers: Any, routes: tuple[str, ...] = ("shop.Order", "shop.Payment", "*")) -> RouteStep:
        schemas = {"value": FramedSchemas(order[0], writers, closed=True, global_ids=True)}
        value = {"format": "avro", "schema": "registry", "frame": frame}
        decode = Decode.model_validate({"value": value, "on_error": "set_null"})
        return RouteStep("schema", "", routes, decode_step(decode, schemas=schemas))

    glue = step("glue", (guid, order))
    assert routes_of(glue, records((header + b"\2", None), (compressed, None))) == ["shop.Order", "shop.Order"]
    ids = records(
        (b"\2", [("apicurio.value.globalId", seven)]),
        (b"\2", [("apicurio.value.contentId", seven)]),
        (b"\0" + seven + b"\2", None),
    )
    apicurio = step("apicurio", (7, order), ("global/7", payment))
    assert routes_of(apicurio, ids) == ["shop.Payment", "shop.Order", "shop.Order"]
    by_id = step("apicurio", (7, order), ("global/7", payment), routes=("global/7", "7"))
    assert routes_of(by_id, ids) == ["global/7", "7", "7"]
    decode = {"value": {"format": "avro", "schema": "registry", "frame": "apicurio", "ids": "content"}}
    decode_of_ids = decode_step(
        Decode.model_validate({**decode, "on_error": "set_null"}),
        schemas={"value": FramedSchemas(order[0], (("content/7", order), ("global/7", payment)), closed=True)},
    )
    by_kind = RouteStep("schema", "", ("global/7", "content/7"), decode_of_ids)
    assert routes_of(by_kind, ids) == ["global/7", "content/7", "content/7"]


def test_without_a_route_the_first_record_ends_the_run() -> None:
    step = by("value.kind", "a")
    with pytest.raises(NoRouteForRecord, match=r"value\.kind: it is 'b', and sink.routes has neither that") as caught:
        step.apply(values({"kind": "a"}, {"kind": "b"}, {"kind": "c"}), ADDRESS)
    assert caught.value.address == {"topic": "orders", "partition": 1, "offset": 7}
    again = error_of_document(error_document(caught.value))
    assert (str(again), again.route_by) == (str(caught.value), "value.kind")  # type: ignore[attr-defined]
    with pytest.raises(NoRouteForRecord, match="it has none"):
        step.apply(values({}), ADDRESS)


class Letters:
    wants_reasons = True

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.to_pylist()


def test_without_a_route_a_record_is_a_dead_letter_beside_those_of_decoding() -> None:
    letters = Letters()
    bad = BadRecords(letters)
    batch = records(*((value, None) for value in (b'{"kind": "b"}', b"{", b'{"kind": "a"}', b'{"kind": null}')))
    assert routes_of(by("value.kind", "a", on_error="dead_letter"), batch, bad) == ["a"]
    assert [(row["offset"], row["error"], row["value"]) for row in letters.rows] == [
        (7, "TRUNCATED", b"{"),
        (5, "ROUTE", b'{"kind": "b"}'),
        (11, "ROUTE", b'{"kind": null}'),
    ]
    assert (bad.counts.decoded, bad.counts.dead, bad.routed) == (1, 3, {"a": 1})


def avro(name: str, *fields: str, **more: Any) -> str:
    listed = [{"name": field, "type": "long"} | more.get(field, {}) for field in fields]
    return json.dumps({"type": "record", "name": f"shop.{name}", "fields": listed})


READER = json.dumps(json.loads(avro("Order", "id", "paid")) | {"aliases": ["shop.Payment"]})
WRITERS = {
    7: (avro("Order", "id"), ()),
    8: (avro("Payment", "total", total={"name": "total", "aliases": ["paid"]}), ()),
    9: "is not sound",
    10: (avro("Order", "id"), ()),
}


def by_schema(*routes: str, **payload: Any) -> RouteStep:
    reader = json.loads(READER)
    reader["fields"][1]["aliases"] = ["total"]
    schemas = {"value": FramedSchemas(json.dumps(reader), tuple(WRITERS.items()), closed=True)}
    given = {"value": {"format": "avro", "schema": "registry", "rename": {"paid": "amount"}} | payload}
    decode = Decode.model_validate({**given, "key": {"format": "string", "as": "who"}, "on_error": "set_null"})
    return RouteStep("schema", "", routes, decode_step(decode, schemas=schemas))


def test_a_schema_is_named_by_its_records_too() -> None:
    batch = records(*((b"\0" + number.to_bytes(4, "big") + b"\2", None) for number in (7, 8, 9, 10)))
    assert routes_of(by_schema("shop.Order", "shop.Payment", "*"), batch) == [
        "shop.Order",
        "shop.Payment",
        "*",
        "shop.Order",
    ]
    assert routes_of(by_schema("7", "shop.Order", "*"), batch) == ["7", "*", "*", "shop.Order"]


def test_records_have_the_columns_of_their_schemas_under_the_rows_names() -> None:
    """Those of a field that the writer calls otherwise too: a table without it would lose values."""
    found = by_schema("shop.Order").columns_of_records()
    assert found is not None
    assert {record: list(columns) for record, columns in found.by_record.items()} == {
        "shop.Order": ["id", "who"],
        "shop.Payment": ["amount", "who"],
    }
    assert by_schema("shop.Order", into="struct", rename={}).columns_of_records() is None


def test_records_of_kinds_with_columns_of_their_own() -> None:
    """A route has its kind's columns, also one whose records have no schema yet; keys are in every table."""
    kinds = (Kind(("shop.Order", "shop.Refund"), avro("Order", "id", "paid")), Kind(("shop.New", "*"), None))
    writers = ((7, (avro("Order", "id"), ())), (8, (avro("Payment", "total"), ())))
    schemas = {"value": FramedSchemas("", writers, kinds=kinds, closed=True)}
    given = {"value": {"format": "avro", "schema": "registry", "rename": {"paid": "amount"}}}
    step = decode_step(Decode.model_validate({**given, "key": {"format": "string", "as": "who"}}), schemas=schemas)
    routed = RouteStep("schema", "", ("shop.Order", "shop.Refund", "shop.New", "*"), step)
    found = routed.columns_of_records()
    assert found is not None
    mine = {"id": "id (int64)", "amount": "amount (int64)"}
    assert found.by_record == {"shop.Order": mine, "shop.Refund": mine, "shop.New": {}, "*": {}}
    assert found.of_kinds


def test_rows_that_decoding_left_out_do_not_move_the_headers_of_others() -> None:
    given = {"value": {"format": "json", "schema": {"columns": {"kind": "string"}}, "tombstones": "drop"}}
    step = RouteStep("header", "kind", ("a", "b"), decode_step(Decode.model_validate(given)))
    batch = records((None, [("kind", b"a")]), (b"{}", [("kind", b"b")]), (b"{}", [("kind", b"a")]))
    assert routes_of(step, batch) == ["b", "a"]


def test_records_that_landed_before_keep_their_rows() -> None:
    step = as_landed(by("value.kind", "a", on_error="dead_letter"))
    assert routes_of(step, values({"kind": "a"}, {"kind": "b"})) == ["a", None]


class _Raises(BatchStep):
    place = "transform[0].arrow"

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def apply(self, batch: pa.RecordBatch, address: Any, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        if 13 in batch.column("number").to_pylist():
            error = ArrowStepError("13", **address)
            error.step, error.raised = self.place, "13"
            raise error
        return batch


def test_a_row_that_a_later_step_raises_for_is_of_no_route() -> None:
    bad = BadRecords(Letters())
    steps = BatchSteps((by("value.kind", "a", "b", on_error="dead_letter"), _Raises()))
    batch = values(*({"kind": "ab"[n % 2], "number": n} for n in range(20)))
    out = steps.apply(batch, steps.output_schema(SCHEMA), ADDRESS, bad)
    assert (out.num_rows, bad.routed, bad.counts.decoded, bad.counts.dead) == (19, {"a": 10, "b": 9}, 19, 1)


KINDS = st.none() | st.sampled_from(["a", "b", "c", "*", ""])


@given(st.lists(KINDS, max_size=12), st.sets(st.sampled_from(["a", "b", "*"]), min_size=1), st.integers(0, 12))
def test_each_record_has_the_same_route_in_any_batch(kinds: list[str | None], routes: set[str], cut: int) -> None:
    """Against the rule in plain words."""
    step = by("value.kind", *sorted(routes), on_error="dead_letter")
    batch = values(*({"kind": kind} for kind in kinds))
    due = [kind if kind in routes else "*" for kind in kinds]
    expected = [route for route in due if route in routes]
    letters = Letters()
    bad = BadRecords(letters)
    found = [route for part in (batch.slice(0, cut), batch.slice(cut)) for route in routes_of(step, part, bad)]
    assert found == expected
    assert bad.routed == {route: expected.count(route) for route in sorted(set(expected))}
    assert [row["offset"] for row in letters.rows] == [5 + 2 * n for n, route in enumerate(due) if route not in routes]
    assert bad.counts.decoded + bad.counts.dead == len(kinds)
