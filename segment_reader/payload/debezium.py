"""Debezium's envelope, decoded by any format -> the rows that it is about.

    op   c r u      the columns of `after`
         d          the columns of `before`: all of them, its key's alone, or none, as the database logs them
         t m        truncated tables and messages of the log: a row of nulls
    null payload    a tombstone, as without an envelope

MongoDB's connector writes documents as JSON text: the row has one column, `document`. Without `capture.mode`
`change_streams_update_full` updates have no document, and without pre-images deletions have none: it is null there.

Beside the row's own columns there are `_kseg_op`, and the times in `source.ts_ms` and `ts_ms` as `_kseg_source_ts` and
`_kseg_connector_ts`. What becomes of values that the connector did not have is told by `unavailable`. Columns are taken
and cast whole: no row becomes a Python object.
Source: https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-events
https://debezium.io/documentation/reference/stable/connectors/mongodb.html#mongodb-events
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status, concatenated
from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.json.formats import FIRST_MICROS, LAST_MICROS
from kseg.segment_reader.payload.plain import Engine, Nulling
from kseg.segment_reader.payload.rescue import RESCUED
from kseg.segment_reader.payload.unavailable import UNAVAILABLE, Unavailable, marks, nulled, unavailable

OP, SOURCE_TS, CONNECTOR_TS = "_kseg_op", "_kseg_source_ts", "_kseg_connector_ts"
AS_WRITTEN = Unavailable()
_Judge = Callable[[npt.NDArray[np.bool_], Status, str], None]
_T = TypeVar("_T")

_DOCUMENT = pa.struct([pa.field("document", pa.string())])
"""The row of an envelope whose `before` and `after` are texts."""

_TIME = pa.timestamp("us", tz="UTC")
_WITH_ROW = ("c", "r", "u")
_WITH_DOCUMENT = ("c", "r")
_OPS = (*_WITH_ROW, "d", "t", "m")
_REASONS = {
    "op": f"the envelope has no operation; known are {', '.join(_OPS)}",
    "after": "the envelope of a row that is there has no row",
    "source.ts_ms": "is not within the years 1 to 9999, as milliseconds",
    "ts_ms": "is not within the years 1 to 9999, as milliseconds",
}
_NOT_TEXT = "is Debezium's placeholder of a value that the connector did not have, and the column is no text"


def envelope_columns(unavailable: Unavailable = AS_WRITTEN) -> tuple[str, ...]:
    """The envelope's own columns, which stand behind those of the row."""
    return (OP, SOURCE_TS, CONNECTOR_TS, *((UNAVAILABLE,) if unavailable.marks else ()))


def envelope_type(row: pa.StructType) -> pa.StructType:
    """The envelope around rows of this type, as far as it is read: for formats that are read by a declared type."""
    return pa.struct(
        [
            pa.field("before", row),
            pa.field("after", row),
            pa.field("source", pa.struct([pa.field("ts_ms", pa.int64())])),
            pa.field("op", pa.string()),
            pa.field("ts_ms", pa.int64()),
        ]
    )


def envelope_paths(by_path: Mapping[str, _T]) -> dict[str, _T]:
    """Settings of a row's fields by path (formats, for instance), by their paths in the envelope."""
    return {f"{state}.{path}": each for state in ("before", "after") for path, each in by_path.items()}


class DebeziumDecoder:
    """See `segment_reader.payload.decoder.PayloadDecoder`. envelopes: decodes payloads to structs with `before`,
    `after` and `op`. unavailable: as of `Envelope`. Raises InvalidSchema where it does not."""

    def __init__(
        self, envelopes: PayloadDecoder, engine: Engine = "fast", unavailable: Unavailable = AS_WRITTEN
    ) -> None:
        self._envelopes = envelopes
        self._unwrap = Envelope(envelopes.type, engine, unavailable)

    @property
    def type(self) -> pa.StructType:
        return self._unwrap.type

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        return self._unwrap.rows(self._envelopes.decode(payloads, skip=skip))

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        decoded = self._envelopes.decode(pa.array([payload], pa.binary()), skip=skip)
        return self._unwrap.explain(decoded) or self._envelopes.explain(payload, skip=skip)


class Envelope:
    """Rows out of decoded envelopes of one type. unavailable: what becomes of values that the connector did not have.
    Raises InvalidSchema where the type is none."""

    def __init__(self, kind: pa.DataType, engine: Engine = "fast", unavailable: Unavailable = AS_WRITTEN) -> None:
        self._nulling = engine if isinstance(engine, Nulling) else None
        self._unavailable = unavailable
        fields = {field.name: field.type for field in kind} if pa.types.is_struct(kind) else {}
        row = fields.get("after")
        self._of_documents = row == pa.string()
        # Before 2.0 the connector of MongoDB wrote no `before`.
        for name in ("after", "op") if self._of_documents else ("before", "after", "op"):
            if name not in fields:
                raise InvalidSchema("", f"is no envelope of Debezium: it has no field {name}")
        if self._of_documents and fields.get("before", row) == row:
            row = _DOCUMENT
        elif not pa.types.is_struct(row) or fields["before"] != row:
            raise InvalidSchema("", "is no envelope of Debezium: `before` and `after` are not records of one type")
        if not pa.types.is_string(fields["op"]):
            raise InvalidSchema("op", "is no envelope of Debezium: `op` is no string")
        if taken := [field.name for field in row if field.name in envelope_columns(unavailable)]:
            raise InvalidSchema(f"after.{quoted(taken[0])}", "is the name of one of the envelope's own columns")
        self._names = [field.name for field in kind]
        self._row = [field.name for field in row]
        self._rescues = RESCUED in fields
        rescued = [pa.field(RESCUED, pa.string())] if self._rescues else []
        own = [pa.field(OP, pa.string()), pa.field(SOURCE_TS, _TIME), pa.field(CONNECTOR_TS, _TIME)]
        if unavailable.marks:
            own.append(pa.field(UNAVAILABLE, pa.list_(pa.string())))
        self.type: pa.StructType = pa.struct([*row, *rescued, *own])

    def rows(self, decoded: DecodedPayloads) -> DecodedPayloads:
        """A row for each envelope, with its status."""
        columns, status, _ = self._columns(decoded)
        return DecodedPayloads(
            pa.StructArray.from_arrays(columns, fields=list(self.type), mask=pa.array(status != Status.DECODED)), status
        )

    def explain(self, decoded: DecodedPayloads) -> PayloadError | None:
        """The fault of the only one of these envelopes; None: it has none."""
        columns, status, place = self._columns(decoded)
        if not place[0]:
            return None
        reason = _REASONS.get(place[0], _NOT_TEXT)
        if status[0] == Status.UNKNOWN_SYMBOL:
            reason = f"{columns[self.type.get_field_index(OP)][0].as_py()!r} is none of {', '.join(_OPS)}"
        return PayloadError(Status(int(status[0])), place[0], reason)

    def _columns(self, decoded: DecodedPayloads) -> tuple[list[pa.Array], npt.NDArray[np.uint8], list[str]]:
        """Columns, status, and where each envelope is wrong, empty for those that are not."""
        parts = dict(zip(self._names, decoded.rows.flatten(), strict=True))
        op, status = parts["op"], decoded.status.copy()
        place = [""] * len(status)

        def judge(wrong: npt.NDArray[np.bool_], what: Status, where: str) -> None:
            for row in np.flatnonzero(wrong & (status == Status.DECODED)).tolist():
                status[row], place[row] = what, where

        judge(np.asarray(op.is_null()), Status.MISSING_FIELD, "op")
        judge(~np.asarray(pc.is_in(op, pa.array(_OPS))), Status.UNKNOWN_SYMBOL, "op")
        of_row = np.asarray(pc.is_in(op, pa.array(_WITH_DOCUMENT if self._of_documents else _WITH_ROW)))
        judge(of_row & np.asarray(parts["after"].is_null()), Status.MISSING_FIELD, "after")
        source = parts.get("source")
        source_ts, far = _instants(_child(source, "ts_ms"), len(op))
        connector_ts, farther = _instants(parts.get("ts_ms"), len(op))
        for wrong, where in (far, "source.ts_ms"), (farther, "ts_ms"):
            if self._nulling is None:
                judge(wrong, Status.OUT_OF_RANGE, where)
            elif wrong.any():
                self._nulling.found(where, int(wrong.sum()), Status.OUT_OF_RANGE, _REASONS[where])
        after = _as_row(parts["after"])
        before = _as_row(parts["before"]) if "before" in parts else pa.nulls(len(op), after.type)
        deleted = np.asarray(pc.fill_null(pc.equal(op, "d"), False))
        columns, lacking = self._available(_chosen(before, after, deleted).flatten())
        if self._unavailable.how == "text":
            self._judged(lacking, deleted, judge)
        rescued = [parts[RESCUED]] if self._rescues else []
        marked = [self._marks(lacking, len(op))] if self._unavailable.marks else []
        return [*columns, *rescued, op, source_ts, connector_ts, *marked], status, place

    def _available(self, columns: list[pa.Array]) -> tuple[list[pa.Array], dict[str, npt.NDArray[np.bool_]]]:
        """A row's columns with nulls in place of placeholders, and by name where these were."""
        how, kept = self._unavailable.how, list(columns)
        lacking: dict[str, npt.NDArray[np.bool_]] = {}
        for at, name in enumerate(self._row if how is not None else ()):
            if how == "text" and pa.types.is_string(columns[at].type):
                continue
            found = unavailable(columns[at])
            if found.any():
                kept[at], lacking[name] = nulled(columns[at], found), found
        return kept, lacking

    def _judged(self, lacking: dict[str, npt.NDArray[np.bool_]], deleted: npt.NDArray[np.bool_], judge: _Judge) -> None:
        """Placeholders that are to stay text, in columns that are none."""
        for name, found in lacking.items():
            for state, rows in ("before", found & deleted), ("after", found & ~deleted):
                if self._nulling is None:
                    judge(rows, Status.WRONG_TYPE, f"{state}.{quoted(name)}")
                elif rows.any():
                    self._nulling.found(f"{state}.{quoted(name)}", int(rows.sum()), Status.WRONG_TYPE, _NOT_TEXT)

    def _marks(self, lacking: dict[str, npt.NDArray[np.bool_]], n: int) -> pa.ListArray:
        names = self._unavailable.names
        return marks({names.get(name, name): rows for name, rows in lacking.items()}, n)


def _as_row(state: pa.Array) -> pa.StructArray:
    """Documents as rows of one column."""
    return state if pa.types.is_struct(state.type) else pa.StructArray.from_arrays([state], fields=list(_DOCUMENT))


def _chosen(before: pa.StructArray, after: pa.StructArray, deleted: npt.NDArray[np.bool_]) -> pa.StructArray:
    if not deleted.any():
        return after
    n = len(after)
    return concatenated([after, before]).take(pa.array(np.arange(n) + np.where(deleted, n, 0)))


def _child(source: pa.Array | None, name: str) -> pa.Array | None:
    if source is None or not pa.types.is_struct(source.type) or source.type.get_field_index(name) < 0:
        return None
    return source.flatten()[source.type.get_field_index(name)]


def _instants(millis: pa.Array | None, n: int) -> tuple[pa.Array, npt.NDArray[np.bool_]]:
    """Milliseconds as instants, and which are too far from now to be any."""
    if millis is not None and pa.types.is_timestamp(millis.type) and millis.type.tz is not None:
        return millis.cast(_TIME), np.zeros(n, np.bool_)
    if millis is None or millis.type != pa.int64():
        return pa.nulls(n, _TIME), np.zeros(n, np.bool_)
    null = np.asarray(millis.is_null())
    number = np.asarray(millis.fill_null(0))
    far = (number < FIRST_MICROS // 1000) | (number > LAST_MICROS // 1000)
    micros = np.where(far, 0, number) * 1000
    return pa.array(micros, pa.int64(), mask=null | far).cast(_TIME), far
