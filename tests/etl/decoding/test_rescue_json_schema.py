"""What documents of a registry's JSON Schema have and a table has not is kept as it is written, wherever it is."""

from __future__ import annotations

import json
from typing import Any, Literal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.etl.decoding.formats.json import JsonSchemas
from kseg.segment_reader.payload.decoder import PayloadDecoder, Status
from kseg.segment_reader.payload.errors import IncompatibleSchemas

RESCUED = "_kseg_rescued"
RESCUE = JsonSchemas(rescue=True)
ENGINES: tuple[Literal["fast", "reference"], ...] = ("fast", "reference")

TEXT, WHOLE, ANY = {"type": "string"}, {"type": "integer"}, {"type": ["string", "integer", "object"]}
AT = {"type": "string", "format": "date-time"}


def document(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def decoder_of(writer: Any, table: Any, engine: Literal["fast", "reference"] = "fast") -> PayloadDecoder:
    """Of the documents of one schema, for a table that another one has made."""
    reader = RESCUE.first(RESCUE.writer(json.dumps(table)))
    return RESCUE.decoder(RESCUE.writer(json.dumps(writer)), reader, engine=engine)


def rows(decoder: PayloadDecoder, *documents: str) -> list[Any]:
    decoded = decoder.decode(pa.array([text.encode() for text in documents], pa.binary()))
    assert decoded.rows.type == decoder.type
    assert decoded.status.tolist() == [Status.DECODED] * len(documents)
    decoded.rows.validate(full=True)
    return decoded.rows.to_pylist()


@pytest.mark.parametrize("engine", ENGINES)
def test_fields_that_the_table_lacks_are_text_as_it_is_written(engine: Literal["fast", "reference"]) -> None:
    table = document(id=WHOLE, old=TEXT, line={"type": "array", "items": document(sku=TEXT)})
    writer = document(id=WHOLE, at=AT, line={"type": "array", "items": document(sku=TEXT, price={"type": "number"})})
    decoder = decoder_of(writer, table, engine)
    found = rows(
        decoder,
        '{"id":1,"at":"no time","line":[{"sku":"a"},{"sku":"b","price":1.50}],"more":{"x":[1e2]}}',
        '{"id":2,"line":null}',
    )
    assert found == [
        {
            "id": 1,
            "old": None,
            "line": [{"sku": "a"}, {"sku": "b"}],
            RESCUED: '{"at":"no time","line":[null,{"price":1.50}],"more":{"x":[1e2]}}',
        },
        {"id": 2, "old": None, "line": None, RESCUED: None},
    ]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_column_that_the_documents_schema_lacks_is_null(engine: Literal["fast", "reference"]) -> None:
    """It may be of any type there: what it has is text."""
    decoder = decoder_of(document(id=WHOLE), document(id=WHOLE, note=WHOLE), engine)
    assert rows(decoder, '{"id":1,"note":"seven"}') == [{"id": 1, "note": None, RESCUED: '{"note":"seven"}'}]


@pytest.mark.parametrize("engine", ENGINES)
def test_records_with_nothing_in_common_are_text(engine: Literal["fast", "reference"]) -> None:
    decoder = decoder_of(document(b=document(x=WHOLE)), document(a=WHOLE, b=document(y=WHOLE)), engine)
    assert rows(decoder, '{"b":{"x":1}}', "{}") == [
        {"a": None, "b": {"y": None}, RESCUED: '{"b":{"x":1}}'},
        {"a": None, "b": None, RESCUED: None},
    ]


def test_formats_are_those_of_fields_that_are_read() -> None:
    decoder = decoder_of(document(id=WHOLE, at=AT, no=AT), document(id=WHOLE, at=AT))
    (row,) = rows(decoder, '{"id":1,"at":"2024-02-29T12:00:00Z","no":"2024-02-29"}')
    assert row["at"].isoformat() == "2024-02-29T12:00:00+00:00"
    assert row[RESCUED] == '{"no":"2024-02-29"}'


def test_a_column_of_another_type_does_not_fit() -> None:
    with pytest.raises(IncompatibleSchemas, match="string does not fit the column, which is bigint"):
        decoder_of(document(id=TEXT, more=WHOLE), document(id=WHOLE))


@pytest.mark.parametrize(("writer", "table"), [(TEXT, ANY), (ANY, TEXT)])
def test_plain_text_and_text_as_it_is_written_are_no_one_column(writer: Any, table: Any) -> None:
    """The column would have `A-17` and `"A-17"`."""
    with pytest.raises(IncompatibleSchemas, match="JSON text"):
        decoder_of(document(ref=writer), document(ref=table))


PROPERTIES = {"a": WHOLE, "b": TEXT, "c": document(x=WHOLE, y=TEXT), "d": {"type": "array", "items": document(z=WHOLE)}}
VALUES = {
    "a": st.integers(-(2**63), 2**63 - 1),
    "b": st.text(st.characters(exclude_categories=["Cs"])),
    "c": st.fixed_dictionaries({}, optional={"x": st.integers(0, 9), "y": st.text("xy"), "u": st.booleans()}),
    "d": st.lists(st.fixed_dictionaries({}, optional={"z": st.integers(0, 9), "v": st.none() | st.text("v")})),
    "e": st.none() | st.lists(st.integers(0, 9)),
}
NAMES = st.sets(st.sampled_from(sorted(PROPERTIES)), min_size=1)


def together(row: Any, text: Any) -> Any:
    """A document made of a row and what was rescued of it: members with a value."""
    if isinstance(row, dict) or isinstance(text, dict):
        row, text = row or {}, text or {}
        return {name: together(row.get(name), text.get(name)) for name in {**row, **text}}
    if isinstance(row, list):
        text = text or []
        return [together(each, text[n] if n < len(text) else None) for n, each in enumerate(row)]
    return row if text is None else text


def valued(value: Any) -> Any:
    """Without members that are null or have none, which rows and texts do not tell from those that are not there."""
    if isinstance(value, dict):
        return {name: found for name, each in value.items() if (found := valued(each)) not in (None, {})}
    return [valued(each) for each in value] if isinstance(value, list) else value


@given(st.data(), NAMES, NAMES)
def test_nothing_of_a_document_is_lost(data: st.DataObject, written: set[str], has: set[str]) -> None:
    writer, table = (document(**{name: PROPERTIES[name] for name in sorted(names)}) for names in (written, has))
    documents = data.draw(st.lists(st.fixed_dictionaries({}, optional=VALUES), min_size=1, max_size=4))
    texts = [json.dumps(each) for each in documents]
    fast, reference = (rows(decoder_of(writer, table, engine), *texts) for engine in ENGINES)
    assert fast == reference
    for row, before in zip(fast, documents, strict=True):
        text = row.pop(RESCUED)
        assert valued(together(row, json.loads(text) if text else None)) == valued(before)
        assert not set(json.loads(text or "{}")) & (written & has) - {"c", "d"}
