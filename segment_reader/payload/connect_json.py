"""Kafka Connect's JSON, `{"schema": …, "payload": …}`, as rows of the payload: JSON's decoder under a declared type.

    schema     compared with the declared type, once for each text: as a contradiction, or as nothing at all. Payloads
               that begin with the bytes of one whose schema was accepted are decoded without it
    payload    the row; null is a tombstone

Of a `payload` the usual formats are Connect's: timestamps as milliseconds, dates as days, decimals as base64.
Source: `org.apache.kafka.connect.json.JsonConverter`.

Documents that begin alike have the same schema, which is compared and not parsed:

    {"schema":{…},"payload":{…}}      one document that was decoded, and whose schema was accepted
    └── its start ──┘                 others that begin with these bytes are decoded from the comma on, which
                 {"payload":{…}}      becomes a brace
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.buffers import byte_buffers, null_mask
from kseg.segment_reader.payload.connect_schema import contradicting_fields, contradiction
from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status, concatenated
from kseg.segment_reader.payload.errors import PayloadSchemaError
from kseg.segment_reader.payload.json.decoder import json_decoder
from kseg.segment_reader.payload.json.document import parse
from kseg.segment_reader.payload.json.formats import BASE64, EPOCH_DAYS, JSON_TEXT
from kseg.segment_reader.payload.json.shape import JsonOptions, shape_of
from kseg.segment_reader.payload.plain import BadPayload, Engine, Nulling


@dataclass(frozen=True)
class RepeatedStart:
    """start: a payload's first bytes, a frame too, up to the name of its second member."""

    start: bytes

    @property
    def skip(self) -> int:
        """The position at which a shortened document begins."""
        return len(self.start) - 1

    def of(self, payloads: pa.BinaryArray) -> npt.NDArray[np.bool_]:
        """A mask of the payloads that begin so."""
        found = pc.starts_with(payloads, self.start)
        return np.asarray(found.fill_null(False))

    def shortened(self, payloads: pa.BinaryArray) -> pa.BinaryArray:
        """A copy of payloads that all begin so, in which byte `skip` begins a document without the first member."""
        offsets, data = byte_buffers(payloads)
        first, last = int(offsets[0]), int(offsets[-1])
        copy = data[first:last].copy()
        copy[offsets[:-1] - first + self.skip] = ord("{")
        buffers = [None, pa.py_buffer((offsets - first).astype(np.int32)), pa.py_buffer(copy)]
        return pa.Array.from_buffers(pa.binary(), len(payloads), buffers)


def repeated_start(payload: bytes, skip: int, members: tuple[str, str], max_depth: int) -> RepeatedStart | None:
    """The repeated start of a document that begins with these two members; None for any other document."""
    try:
        found = parse(payload, skip, max_depth).members
    except BadPayload:
        return None
    if tuple(member.name for member in found[:2]) != members:
        return None
    return RepeatedStart(payload[: found[1].start])


CONNECT_OPTIONS = JsonOptions(timestamp_format="epoch_millis", date_format=EPOCH_DAYS, unknown_fields="ignore")

_SCHEMA, _PAYLOAD = "schema", "payload"
_KNOWN_TEXTS = 1000


class ConnectJsonDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`.

    declared: the payload's type, a struct or any other. options: paths of formats are within the payload; decimals
    without one are base64, or numbers. Raises InvalidSchema.
    """

    def __init__(
        self, declared: pa.DataType, options: JsonOptions = CONNECT_OPTIONS, *, engine: Engine = "fast"
    ) -> None:
        formats = dict.fromkeys(_decimals(declared, ""), BASE64) | dict(options.formats)
        document = pa.struct([pa.field(_SCHEMA, pa.string()), pa.field(_PAYLOAD, declared)])
        self._options = replace(options, formats={_SCHEMA: JSON_TEXT, **_within(formats)})
        self._inner = json_decoder(document, self._options, engine=engine)
        self._shape = shape_of(document, self._options).by_name[_PAYLOAD]
        self._rescues = options.unknown_fields == "rescue" and pa.types.is_struct(declared)
        self._type = declared
        if self._rescues:
            self._type = pa.struct([*declared, pa.field(options.rescued, pa.string())])
        self._known: dict[str, PayloadSchemaError | None] = {}
        self._nulling = engine if isinstance(engine, Nulling) else None
        self._start: RepeatedStart | None = None

    @property
    def type(self) -> pa.DataType:
        return self._type

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        start = self._start
        if self._nulling is not None or start is None or len(start.start) <= skip:
            return self._decode(payloads, skip)
        known = start.of(payloads)
        if not known.any():
            return self._decode(payloads, skip)
        rows = np.flatnonzero(known)
        alike = payloads if known.all() else payloads.filter(pa.array(known))
        inner = self._inner.decode(start.shortened(alike), skip=start.skip)
        columns = self._columns(inner)
        # What is rare is decoded from its first byte: errors, tombstones, a schema that comes a second time.
        rare = (inner.status != Status.DECODED) | null_mask(columns[_PAYLOAD]) | ~null_mask(columns[_SCHEMA])
        usual = DecodedPayloads(self._rows(columns, rare), inner.status)
        known[rows[rare]] = False
        if known.all():
            return usual
        others = np.flatnonzero(~known)
        rest = self._decode(payloads.take(pa.array(others)), skip)
        order = np.empty(len(payloads), np.int64)
        order[rows], order[others] = np.arange(len(rows)), np.arange(len(others)) + len(rows)
        both = concatenated([usual.rows, rest.rows]).take(pa.array(order))
        return DecodedPayloads(both, np.concatenate([usual.status, rest.status])[order])

    def _decode(self, payloads: pa.BinaryArray, skip: int) -> DecodedPayloads:
        """Whole documents, of which one gives the start of others."""
        decoded = self._inner.decode(payloads, skip=skip)
        columns = self._columns(decoded)
        status = decoded.status.copy()
        sound = status == Status.DECODED
        contradicts = sound & self._contradicts(columns[_SCHEMA])
        if self._nulling is not None and contradicts.any():
            contradicts = self._without_contradicting(columns, contradicts, self._nulling)
        status[contradicts] = Status.INCOMPATIBLE_SCHEMA
        for row in np.flatnonzero((status == Status.DECODED) & np.asarray(columns[_PAYLOAD].is_null())).tolist():
            there = self._has_payload(payloads[row].as_py(), skip)
            status[row] = Status.NULL if there else Status.MISSING_FIELD
        lost = status != Status.DECODED
        accepted = np.flatnonzero(~lost & ~null_mask(columns[_SCHEMA]))
        if len(accepted):
            first = payloads[int(accepted[0])].as_py()
            self._start = repeated_start(first, skip, (_SCHEMA, _PAYLOAD), self._options.max_depth)
        return DecodedPayloads(self._rows(columns, lost), status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        one = pa.array([payload], pa.binary())
        status = Status(int(self._decode(one, skip).status[0]))
        if status is Status.MISSING_FIELD:
            hint = "the converter of its producer may have schemas.enable=false: such documents are format: json"
            return PayloadError(status, _PAYLOAD, f"the document has no member {_PAYLOAD}; {hint}")
        if status is Status.INCOMPATIBLE_SCHEMA:
            text = self._inner.decode(one, skip=skip).rows.field(0)[0].as_py()
            found = self._contradiction(text)
            assert found is not None
            return PayloadError(status, found.place, found.reason)
        return self._inner.explain(payload, skip=skip)

    def _columns(self, decoded: DecodedPayloads) -> dict[str, pa.Array]:
        return dict(zip((_SCHEMA, _PAYLOAD, "rescued"), decoded.rows.flatten(), strict=False))

    def _rows(self, columns: Mapping[str, pa.Array], lost: npt.NDArray[np.bool_]) -> pa.Array:
        rows = columns[_PAYLOAD]
        if not pa.types.is_struct(self._type):
            return pc.if_else(pa.array(lost), pa.nulls(len(rows), self._type), rows) if lost.any() else rows
        children = [*rows.flatten(), *([columns["rescued"]] if self._rescues else [])]
        if not children:
            return pa.array([None if gone else {} for gone in lost.tolist()], self._type)
        return pa.StructArray.from_arrays(children, fields=list(self._type), mask=pa.array(lost))

    def _contradicts(self, schemas: pa.StringArray) -> npt.NDArray[np.bool_]:
        texts = schemas.dictionary_encode()
        faulty = np.array([*(self._contradiction(text) is not None for text in texts.dictionary.to_pylist()), False])
        found: npt.NDArray[np.bool_] = faulty[np.asarray(texts.indices.fill_null(len(faulty) - 1))]
        return found

    def _without_contradicting(
        self, columns: dict[str, pa.Array], rows: npt.NDArray[np.bool_], nulling: Nulling
    ) -> npt.NDArray[np.bool_]:
        """Put nulls in place of the fields that the schemas of these rows contradict; the rows that are left, whose
        payload itself is of another type."""
        texts, payloads = columns[_SCHEMA].dictionary_encode(), columns[_PAYLOAD]
        indices, whole = np.asarray(texts.indices.fill_null(-1)), np.zeros(len(rows), np.bool_)
        lost: dict[str, npt.NDArray[np.bool_]] = {}
        for number, text in enumerate(texts.dictionary.to_pylist()):
            mine = rows & (indices == number)
            names = contradicting_fields(text, self._shape) if mine.any() else ()
            if names is None:
                whole |= mine
            for name in names or ():
                lost[name] = lost.get(name, np.zeros(len(rows), np.bool_)) | mine
                there = ~null_mask(payloads.field(name))  # values of another type are nulls already, and counted
                nulling.places[f"{_PAYLOAD}.{quoted(name)}"] += int((mine & there).sum())
        if lost:
            children = [
                pc.if_else(pa.array(lost[field.name]), pa.nulls(len(child), field.type), child)
                if field.name in lost
                else child
                for field, child in zip(payloads.type, payloads.flatten(), strict=True)
            ]
            columns[_PAYLOAD] = pa.StructArray.from_arrays(
                children, fields=list(payloads.type), mask=payloads.is_null()
            )
        return whole

    def _contradiction(self, text: str) -> PayloadSchemaError | None:
        if text not in self._known:
            if len(self._known) >= _KNOWN_TEXTS:
                self._known.clear()
            self._known[text] = contradiction(text, self._shape)
        return self._known[text]

    def _has_payload(self, document: bytes, skip: int) -> bool:
        return any(member.name == _PAYLOAD for member in parse(document, skip, self._options.max_depth).members)


def _decimals(kind: pa.DataType, path: str) -> Iterator[str]:
    if pa.types.is_decimal(kind):
        yield path
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _decimals(field.type, f"{path}.{quoted(field.name)}" if path else quoted(field.name))
    elif pa.types.is_list(kind):
        yield from _decimals(kind.value_type, f"{path}[]")
    elif pa.types.is_map(kind):
        yield from _decimals(kind.item_type, f"{path}[]")


def _within(formats: Mapping[str, str]) -> dict[str, str]:
    """Paths within the payload as paths within the document."""
    return {
        f"{_PAYLOAD}.{path}" if path and not path.startswith("[]") else f"{_PAYLOAD}{path}": name
        for path, name in formats.items()
    }
