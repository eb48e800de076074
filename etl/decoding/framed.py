"""Decodes payloads that contain the id of their writer's schema; payloads of one schema are decoded together.

frames of a batch ──► one (schema, message, frame size) for all rows: its decoder reads the whole batch
                 └──► several: rows are grouped by it, each group is decoded, and the original order is restored
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.etl.decoding.foreign_frames import other_frame, other_ids
from kseg.etl.decoding.formats.avro import AvroSchemas
from kseg.etl.decoding.formats.port import SchemaFormat, Uses
from kseg.etl.decoding.kinds import Kind, KindColumns, OfNoKind, kind_of
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status, concatenated
from kseg.segment_reader.payload.errors import IncompatibleSchemas, PayloadSchemaError
from kseg.segment_reader.payload.framing import (
    FrameForm,
    Frames,
    IdKind,
    SchemaKey,
    frames_of_records,
    without_implausible,
)
from kseg.segment_reader.payload.glue import glue_damage, unpacked
from kseg.segment_reader.payload.plain import Engine, Nulling

WriterTexts = tuple[str, Uses]
"""A schema's text, and those of what it uses."""

Message = tuple[int, ...]
"""Indexes of a message in its schema; none where the format has no such."""

_LONGEST_FRAME = 1024

_OF_TYPES: Final = frozenset((Status.WRONG_TYPE, Status.OUT_OF_RANGE, Status.INEXACT, Status.UNKNOWN_SYMBOL))
"""What is wrong with a document that has values of other types than its schema."""


class UnknownKeys(Exception):
    """Payloads have schema ids that are not in `writers`. keys: these ids and GUIDs. row: the first such payload."""

    def __init__(self, keys: tuple[SchemaKey, ...], row: int) -> None:
        super().__init__(f"unknown schemas {keys}")
        self.keys = keys
        self.row = row


@dataclass(frozen=True)
class FramedSchemas:
    """The schemas of framed payloads. Picklable.

    reader: the reader's schema; empty if each kind of records has its own. writers: schemas by id or GUID; None: the
    registry does not have the id; a text: the reason why its payloads cannot be decoded. closed: the registry has no
    other schemas. kinds: kinds of records that have their own columns. frame: whose frames the payloads have.
    global_ids: those in Apicurio's headers are told from other ids (`DecodingRules`). ids: which of Apicurio's ids are
    before payloads; None: those that its API in Confluent's form has.
    """

    reader: str
    writers: tuple[tuple[SchemaKey, WriterTexts | str | None], ...] = ()
    format: SchemaFormat = field(default_factory=AvroSchemas)
    closed: bool = False
    kinds: tuple[Kind, ...] = ()
    frame: FrameForm = "confluent"
    global_ids: bool = False
    ids: IdKind | None = None

    def plain(self, payloads: pa.BinaryArray) -> pa.BinaryArray:
        """The payloads, uncompressed where their frames say that they are compressed. Raises TooLargeForOneBatch."""
        return unpacked(payloads) if self.frame == "glue" else payloads

    def why_no_frame(self, payload: bytes | None) -> str:
        """What is wrong with the frame of a payload that names no schema."""
        if self.frame == "glue" and payload is not None and (damage := glue_damage(payload)) is not None:
            return damage
        return "it does not begin with a registry's frame (a byte 0 and a schema's id), and no header names a schema"

    def frames(self, payloads: pa.BinaryArray, headers: pa.ListArray | None, source: str) -> Frames:
        """The frames of these keys or values (source); of payloads as `plain` gives them."""
        found = frames_of_records(payloads, headers, source, self.frame, global_ids=self.global_ids, ids=self.ids)
        return without_implausible(found, self._keys) if self.frame == "apicurio" else found

    @cached_property
    def _keys(self) -> frozenset[SchemaKey]:
        return frozenset(key for key, _ in self.writers)

    def kind_of(self, record: str | None) -> int | None:
        """The number of a record's kind, by the record's name in its schema; None if no table accepts it."""
        return kind_of(record, [kind.records for kind in self.kinds])


class FramedDecoder:
    """Decodes framed payloads to rows of one reader's schema, or of one for each kind of records. Not picklable.

    rename, whole: for the columns of kinds; see `KindColumns`.
    """

    def __init__(
        self,
        schemas: FramedSchemas,
        engine: Engine = "fast",
        rename: Mapping[str, str] | None = None,
        whole: str = "value",
    ) -> None:
        self._schemas, self._engine = schemas, engine
        self._rename, self._whole = rename or {}, whole
        self._writers = dict(schemas.writers)
        self._parsed: dict[SchemaKey, Any] = {}
        self._decoders: dict[tuple[SchemaKey, Message], PayloadDecoder | str] = {}

    @cached_property
    def type(self) -> pa.DataType:
        """Raises PayloadSchemaError."""
        return self._schemas.format.type(self._reader) if self.columns is None else self.columns.type

    @cached_property
    def columns(self) -> KindColumns | None:
        """The columns of each kind of records; None if all have the same columns. Raises PayloadSchemaError."""
        if not self._schemas.kinds:
            return None
        types = (None if reader is None else self._schemas.format.type(reader) for reader in self._readers)
        return KindColumns(tuple(types), self._rename, self._whole)

    @cached_property
    def _reader(self) -> Any:
        return self._schemas.format.reader(self._schemas.reader)

    @cached_property
    def _readers(self) -> list[Any]:
        """The reader's schema of each kind."""
        form = self._schemas.format
        return [None if kind.reader is None else form.reader(kind.reader) for kind in self._schemas.kinds]

    def kinds(self, payloads: pa.BinaryArray, headers: pa.ListArray | None, source: str) -> npt.NDArray[np.int64]:
        """The number of each payload's kind; -1 if it has none."""
        met, which = self._met(payloads, headers, source)
        found = [-1 if (number := self._kind_of(key, message)) is None else number for key, message in met]
        return np.array([*found, -1], np.int64)[which]

    def records(self, payloads: pa.BinaryArray, headers: pa.ListArray | None, source: str) -> pa.StringArray:
        """The record name in each payload's schema; null if it has none."""
        met, which = self._met(payloads, headers, source)
        names = pa.array([self._record(key, message) for key, message in met], pa.string())
        return names.take(pa.array(which, mask=which < 0))

    def _met(
        self, payloads: pa.BinaryArray, headers: pa.ListArray | None, source: str
    ) -> tuple[list[tuple[SchemaKey, Message]], npt.NDArray[np.int64]]:
        """The distinct schemas and messages of the payloads, and each payload's index in them; -1 for none."""
        payloads = self._schemas.plain(payloads)
        frames, messages = self._with_messages(self._schemas.frames(payloads, headers, source), payloads)
        width = len(messages.names) + 1
        pairs = np.where(frames.which < 0, -1, frames.which.astype(np.int64) * width + messages.which)
        found, which = np.unique(pairs, return_inverse=True)
        none = int(len(found) > 0 and found[0] < 0)
        met = [
            (frames.schemas[pair // width], messages.names[pair % width] if messages.names else ())
            for pair in found[none:].tolist()
        ]
        return met, which.astype(np.int64) - none

    def _kind_of(self, key: SchemaKey, message: Message) -> int | None:
        if not isinstance(self._writers.get(key), tuple):
            return None
        return self._schemas.kind_of(self._record(key, message))

    def _record(self, key: SchemaKey, message: Message) -> str | None:
        try:
            writer = self._writer(key)
            return None if writer is None else self._schemas.format.record(writer, message)
        except PayloadSchemaError:
            return None  # decoding says so

    def _writer(self, key: SchemaKey) -> Any:
        """A writer's schema; None if there is none. Raises PayloadSchemaError."""
        texts = self._writers.get(key)
        if key not in self._parsed and isinstance(texts, tuple):
            self._parsed[key] = self._schemas.format.writer(*texts)
        return self._parsed.get(key)

    def decode(self, payloads: pa.BinaryArray, headers: pa.ListArray | None, source: str) -> DecodedPayloads:
        """Decode n payloads to n rows, in order. source: `key` or `value`, whose header may have the schema's id.

        Raises:
            UnknownKeys: a payload has a schema id that is not in `writers`, and `closed` is false.
            TooLargeForOneBatch: the rows do not fit into one array.
        """
        payloads = self._schemas.plain(payloads)
        frames = self._schemas.frames(payloads, headers, source)
        met = np.unique(frames.which[frames.which >= 0]).tolist()
        unknown = [number for number in met if frames.schemas[number] not in self._writers]
        if unknown and not self._schemas.closed:
            row = int(np.flatnonzero(np.isin(frames.which, unknown))[0])
            raise UnknownKeys(tuple(frames.schemas[number] for number in unknown), row)
        frames, messages = self._with_messages(frames, payloads)
        order, starts = _groups(frames, messages)
        framed = [start for start in starts if frames.status[order[start]] == Status.DECODED]
        bare = frames.status[order[: framed[0] if framed else len(order)]]
        if len(framed) == 1 and payloads.null_count == len(bare):
            # A decoder gives null rows for null payloads itself.
            part = self._part(payloads, frames, messages, int(order[framed[0]]))
            return DecodedPayloads(_joined([part.rows], self.type), part.status)
        sorted_payloads = payloads.take(pa.array(order))
        rows = [pa.nulls(len(bare), self.type)] if len(bare) or not framed else []
        statuses = [bare]
        for start, end in pairwise([*framed, len(order)]):
            part = self._part(sorted_payloads.slice(start, end - start), frames, messages, int(order[start]))
            rows.append(part.rows)
            statuses.append(part.status)
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return DecodedPayloads(_joined(rows, self.type).take(pa.array(back)), np.concatenate(statuses)[back])

    def explain(self, payload: bytes | None, headers: pa.ListArray | None, source: str) -> PayloadError:
        """The reason why a payload has no row. headers: its record's headers."""
        one = self._schemas.plain(pa.array([payload], pa.binary()))
        frames = self._schemas.frames(one, headers, source)
        if payload is None or frames.status[0] != Status.DECODED:
            message = self._schemas.why_no_frame(payload)
            return PayloadError(Status.BAD_FRAME, "", message + other_frame(payload, headers, self._schemas.frame))
        frames, messages = self._with_messages(frames, one)
        if frames.status[0] == Status.MALFORMED:
            return PayloadError(Status.MALFORMED, "", "it does not begin with a branch of the union that its schema is")
        if frames.status[0] != Status.DECODED:
            return PayloadError(Status.BAD_FRAME, "", "no message indexes follow the schema's id")
        key = frames.schemas[int(frames.which[0])]
        decoder = self._decoder(key, messages.of(0))
        if isinstance(decoder, str):
            hint = other_frame(payload, headers, self._schemas.frame) if self._writers.get(key) is None else ""
            return PayloadError(self._why_not(key), "", decoder + (hint or self._other_ids(frames)))
        return self.with_ids(decoder.explain(one[0].as_py(), skip=int(frames.skip[0])), payload, headers, source)

    def with_ids(
        self, error: PayloadError, payload: bytes | None, headers: pa.ListArray | None, source: str
    ) -> PayloadError:
        """The error of a payload. Its message names the key `ids` if the registry may have another schema by the id
        before the payload."""
        if self._schemas.frame != "apicurio" or self._schemas.ids or isinstance(self._engine, Nulling):
            return error
        one = pa.array([payload], pa.binary())
        if self._is_of_its_schema(error.status, one, headers, source):
            return error
        hint = self._other_ids(self._schemas.frames(one, headers, source))
        return replace(error, message=error.message + hint)

    def _is_of_its_schema(self, status: Status, one: pa.BinaryArray, headers: pa.ListArray | None, source: str) -> bool:
        """Whether what is wrong is in a payload that was written with the schema of its id."""
        if status == Status.MISSING_FIELD:
            return False
        if self._schemas.format.self_describing:
            return status not in _OF_TYPES
        decoder = FramedDecoder(self._schemas, Nulling(), self._rename, self._whole)
        return bool(decoder.decode(one, headers, source).status[0] == Status.DECODED)

    def _other_ids(self, frames: Frames) -> str:
        """The end of an error's message, if the id before this payload may be of the other kind; or empty."""
        before = frames.in_headers is None or not len(frames.in_headers.rows)
        return other_ids(self._schemas.frame, self._schemas.ids) if before else ""

    def _with_messages(self, frames: Frames, payloads: pa.BinaryArray) -> tuple[Frames, _Messages]:
        """The message type of each payload, and the frames with the message indexes included."""
        if not self._schemas.format.indexed:
            return self._with_branches(frames, payloads)
        from kseg.segment_reader.payload.protobuf.framing import message_indexes

        found = message_indexes(payloads, frames.skip)
        of, known = found.which.astype(np.int64), list(found.messages)
        status, skip = np.where(frames.status == Status.DECODED, found.status, frames.status), found.skip.copy()
        if frames.in_headers is not None:
            rows = frames.in_headers.rows
            there = message_indexes(frames.in_headers.values, frames.in_headers.skip)
            named = frames.status[rows] == Status.DECODED
            of[rows] = np.where(there.which < 0, -1, there.which + len(known))
            known += there.messages
            skip[rows] = 0
            # A header's value with no indexes in it is as bad as a frame without them.
            status[rows[named]] = np.where(there.status[named] == Status.DECODED, Status.DECODED, Status.BAD_FRAME)
        status = status.astype(np.uint8)
        which = np.where(status == Status.DECODED, frames.which, -1).astype(np.int32)
        return replace(frames, which=which, skip=skip, status=status), _Messages(tuple(known), of)

    @cached_property
    def in_unions(self) -> frozenset[SchemaKey]:
        """The schemas that are unions of records, of which each is of a kind of its own."""
        found = self._writers if self._schemas.kinds else ()
        return frozenset(key for key in found if self._in_union(key))

    def _in_union(self, key: SchemaKey) -> bool:
        try:
            writer = self._writer(key)
            return writer is not None and self._schemas.format.in_union(writer)
        except PayloadSchemaError:
            return False  # decoding says so

    def _with_branches(self, frames: Frames, payloads: pa.BinaryArray) -> tuple[Frames, _Messages]:
        """Which record of a union each payload is, as a message of one index. A union's null is no payload."""
        unions = [number for number, key in enumerate(frames.schemas) if key in self.in_unions]
        of = np.zeros(len(payloads), np.int64)
        if not unions:
            return frames, _Messages((), of)
        from kseg.segment_reader.payload.avro.branches import union_branches

        rows = np.isin(frames.which, unions)
        branches, skip = union_branches(payloads, frames.skip)
        of[rows] = branches[rows] + 1
        status, most = frames.status.copy(), 0
        for number in unions:
            mine = frames.which == number
            kinds = self._writer(frames.schemas[number]).branches
            nulls = [n for n, kind in enumerate(kinds) if getattr(kind, "kind", None) == "null"]
            status[mine & ((branches < 0) | (branches >= len(kinds)))] = Status.MALFORMED
            status[mine & np.isin(branches, nulls)] = Status.NULL
            most = max(most, len(kinds))
        which = np.where(status == Status.DECODED, frames.which, -1).astype(np.int32)
        skip = np.where(rows, skip, frames.skip).astype(np.int32)
        messages = _Messages(((), *((n,) for n in range(most))), np.where(which < 0, 0, of))
        return replace(frames, which=which, skip=skip, status=status), messages

    def _part(self, payloads: pa.BinaryArray, frames: Frames, messages: _Messages, row: int) -> DecodedPayloads:
        """Payloads with the frame of this row, or null."""
        key = frames.schemas[int(frames.which[row])]
        decoder = self._decoder(key, messages.of(row))
        if not isinstance(decoder, str):
            return decoder.decode(payloads, skip=int(frames.skip[row]))
        nulls = np.asarray(payloads.is_null())
        statuses = np.where(nulls, Status.NULL, self._why_not(key)).astype(np.uint8)
        return DecodedPayloads(pa.nulls(len(payloads), self.type), statuses)

    def _why_not(self, key: SchemaKey) -> Status:
        return Status.UNKNOWN_SCHEMA if self._writers.get(key) is None else Status.INCOMPATIBLE_SCHEMA

    def _decoder(self, key: SchemaKey, message: Message) -> PayloadDecoder | str:
        """The decoder of a writer's schema, or the reason why there is none."""
        known = self._decoders.get((key, message))
        if known is None:
            known = self._made(key, message)
            # Payloads may name any number of messages that there are not: those are not kept.
            if not (message and isinstance(known, str)):
                self._decoders[key, message] = known
        return known

    def _made(self, key: SchemaKey, message: Message) -> PayloadDecoder | str:
        texts = self._writers.get(key)
        if texts is None:
            return f"the registry does not know the schema {key}"
        if isinstance(texts, str):
            return f"schema {key} {texts}"
        form = self._schemas.format
        try:
            if self._schemas.kinds:
                return self._of_kind(form, texts, form.record(self._writer(key), message), message)
            return form.decoder(self._writer(key), self._reader, message, engine=self._engine)
        except PayloadSchemaError as error:
            return f"schema {key}: {error}"

    def _of_kind(self, form: SchemaFormat, texts: WriterTexts, record: str | None, message: Message) -> PayloadDecoder:
        number = self._schemas.kind_of(record)
        if number is None:
            return OfNoKind()
        if (reader := self._readers[number]) is None:
            raise IncompatibleSchemas("", "", "the table of its records has no columns yet")
        assert self.columns is not None
        form = form if record is None else form.of_record(record)
        own = form.decoder(form.writer(*texts), reader, message, engine=self._engine)
        return self.columns.decoder(number, own)


@dataclass(frozen=True)
class _Messages:
    """names: all messages of a batch. which: each row's index in `names`; -1 if its status is not DECODED."""

    names: tuple[Message, ...]
    which: npt.NDArray[np.int64]

    def of(self, row: int) -> Message:
        return self.names[int(self.which[row])] if self.names else ()


def record_names(schemas: FramedSchemas) -> dict[str, str]:
    """The record names of schemas that have them, by id or GUID as text."""
    form, found = schemas.format, {}
    for key, texts in schemas.writers:
        if isinstance(texts, tuple) and (name := form.record(form.writer(*texts))) is not None:
            found[str(key)] = name
    return found


def record_columns(schemas: FramedSchemas) -> dict[str, tuple[str, ...]]:
    """The columns in which records of each schema may have values, by id or GUID as text."""
    form, reader = schemas.format, schemas.format.reader(schemas.reader)
    return {
        str(key): form.columns(form.writer(*texts), reader)
        for key, texts in schemas.writers
        if isinstance(texts, tuple)
    }


def schema_key(text: str) -> SchemaKey:
    """Parse a schema's id or GUID."""
    return int(text) if text.lstrip("-").isdigit() else text


def _joined(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Concatenate parts to rows of this type. Columns of a struct that a part lacks are null in its rows.

    In a table with many columns, most parts lack most columns: the cost depends only on the columns that parts have.
    """
    if not pa.types.is_struct(kind) or all(part.type == kind for part in parts):
        return concatenated(parts)
    placed: dict[str, list[tuple[int, pa.Array]]] = {}
    total = 0
    for part in parts:
        if part.null_count < len(part):
            for child, values in zip(part.type, part.flatten(), strict=True):
                placed.setdefault(child.name, []).append((total, values))
        total += len(part)
    columns = [_with_gaps(placed.get(child.name, ()), total, child.type) for child in kind]
    nulls = pa.concat_arrays([part.is_null() for part in parts])
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=nulls)


def _with_gaps(placed: Iterable[tuple[int, pa.Array]], total: int, kind: pa.DataType) -> pa.Array:
    """A column made of pieces, which are given by their first row; all other rows are null."""
    pieces, end = [], 0
    for start, values in placed:
        pieces += [pa.nulls(start - end, kind), values]
        end = start + len(values)
    pieces.append(pa.nulls(total - end, kind))
    return concatenated([piece for piece in pieces if len(piece)] or pieces)


def _groups(frames: Frames, messages: _Messages) -> tuple[npt.NDArray[np.int64], list[int]]:
    """Rows sorted by schema, message and frame size, rows without a schema first; and the start of each group."""
    kinds = (frames.which.astype(np.int64) * (len(messages.names) + 1) + messages.which) * _LONGEST_FRAME + frames.skip
    kinds[frames.status != Status.DECODED] = -1
    order = np.argsort(kinds, kind="stable")
    changes = np.flatnonzero(np.diff(kinds[order])) + 1
    return order, [0, *changes.tolist()] if len(order) else []
