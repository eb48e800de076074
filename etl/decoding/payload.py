"""The plan by which keys or values are decoded, which is sent to workers, and the decoder that workers create from it.

Workers do not load the job file: the plan has the settings that they need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kseg.etl.decoding.change_states import AFTER, ChangeStates
from kseg.etl.decoding.errors import UnknownSchemas, address_of
from kseg.etl.decoding.foreign_frames import other_frame
from kseg.etl.decoding.formats.registry import FORMATS
from kseg.etl.decoding.framed import FramedDecoder, FramedSchemas, UnknownKeys
from kseg.etl.decoding.kinds import KindColumns
from kseg.etl.decoding.rules import NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError, Status
from kseg.segment_reader.payload.errors import PayloadSchemaError, TooLargeForOneBatch
from kseg.segment_reader.payload.glue import GlueDecoder
from kseg.segment_reader.payload.plain import Engine, Nulling
from kseg.segment_reader.payload.schema_names import id_of
from kseg.segment_reader.payload.unavailable import Unavailable

if TYPE_CHECKING:
    from kseg.segment_reader.payload.debezium import Envelope

T = TypeVar("T")
_MADE: Final = ("decoder", "by_frames", "_envelopes", "states")


@dataclass(frozen=True)
class PayloadPlan:
    """The plan for keys or for values. Picklable.

    format, schema_text, columns, json: as in the job file (`etl.config.decoding.Payload`); json: the decoder's
    options by name. column: the column's name for a value that is not a record, or a record that stays a struct.
    into_columns: whether a record's fields become columns. rename: new names of these, by field name. section: the
    path of the section with keys and values in the job file, or empty. message: for Protobuf. nanoseconds,
    out_of_range_times: for Protobuf and Avro. envelope: the format around records; the columns are those of the records
    in it. unavailable: what values are there that the connector did not have. framed: schemas of a registry whose ids
    are in payloads. frame: whose frames payloads have. engine: `reference` is the decoder in plain Python. rules: of
    decoding.
    """

    source: Literal["key", "value"]
    format: str
    column: str
    columns: tuple[tuple[str, str], ...] = ()
    schema_text: str | None = None
    json: tuple[tuple[str, Any], ...] = ()
    into_columns: bool = True
    rename: tuple[tuple[str, str], ...] = field(default=())
    drop_nulls: bool = False
    section: str = "decode"
    message: str | None = None
    nanoseconds: Literal["fail", "truncate"] = "fail"
    out_of_range_times: Literal["fail", "set_null"] = "fail"
    envelope: Literal["none", "debezium"] = "none"
    unavailable: Literal["null", "text", "mark"] | None = None
    framed: FramedSchemas | None = None
    frame: Literal["confluent", "apicurio", "glue"] = "confluent"
    engine: Engine = "fast"
    rules: DecodingRules = NEWEST

    @property
    def place(self) -> str:
        """The path of this setting in the job file."""
        return f"{self.section}.{self.source}".lstrip(".")

    @property
    def type(self) -> pa.DataType:
        """The row type for all payloads. Raises ConfigurationError if the schema is invalid."""
        try:
            if self.framed is None:
                return self.decoder.type
            return self.by_frames.type if self._envelopes is None else self._envelopes.type
        except PayloadSchemaError as error:
            raise self._unsound(error) from None

    def decode(self, records: pa.RecordBatch, enough: int | None = None) -> DecodedPayloads:
        """Decode the keys or values of these records to rows, one for each record.

        A single record whose row is too large for a column is TOO_LARGE. enough: as of `ChangeStates.judged`: of
        records whose status is an error, behind which others may have one without cause.

        Raises:
            UnknownSchemas: a payload has a schema id that is not in the plan.
            TooLargeForOneBatch: there are several records: see `in_parts`.
        """
        try:
            return self._decoded(records, enough)
        except TooLargeForOneBatch:
            if len(records) > 1:
                raise
            return DecodedPayloads(pa.nulls(1, self.type), np.array([Status.TOO_LARGE], np.uint8))

    def _decoded(self, records: pa.RecordBatch, enough: int | None = None) -> DecodedPayloads:
        decoded = self._by_engine(records)
        return self.states.judged(records, decoded, enough) if self.judges_states else decoded

    def _by_engine(self, records: pa.RecordBatch) -> DecodedPayloads:
        if self.framed is not None:
            try:
                decoded = self.by_frames.decode(records.column(self.source), _headers(records), self.source)
                return decoded if self._envelopes is None else self._envelopes.rows(decoded)
            except UnknownKeys as unknown:
                found = {self.lineage: tuple(str(key) for key in unknown.keys)}
                raise UnknownSchemas(self.source, found, **address_of(records, unknown.row)) from None
        return self.decoder.decode(records.column(self.source))

    def explain(self, records: pa.RecordBatch, row: int, status: Status = Status.TOO_LARGE) -> PayloadError:
        """The reason why this record's key or value has no row. status: of the row, if it is known."""
        if status == Status.TOO_LARGE:
            try:
                self._decoded(records.slice(row, 1))
            except TooLargeForOneBatch:
                return PayloadError(status, "", "it decodes to more than 2 GiB, or 2^31 elements, of one column")
        found = self.states.explain(records, row) if self.judges_states else None
        if self.framed is not None:
            return self._explained(records.slice(row, 1), found)
        if found is not None:
            return found
        payload = records.column(self.source)[row].as_py()
        error = self.decoder.explain(payload)
        hint = other_frame(payload, _headers(records.slice(row, 1)), self.frame)
        return replace(error, message=error.message + hint) if hint else error

    def _explained(self, one: pa.RecordBatch, found: PayloadError | None) -> PayloadError:
        """The same of one record whose payload has its schema's id. found: what is wrong with its event, if known."""
        payload, headers = one.column(self.source), _headers(one)
        if found is None and self._envelopes is not None:
            found = self._envelopes.explain(self.by_frames.decode(payload, headers, self.source))
        if found is None:
            return self.by_frames.explain(payload[0].as_py(), headers, self.source)
        if found.path == AFTER:  # beside an operation, so that the event is one
            return found
        return self.by_frames.with_ids(found, payload[0].as_py(), headers, self.source)

    def schema_id(self, records: pa.RecordBatch, row: int) -> int | None:
        """The id of the writer's schema in this record's frame or header; None if it has none."""
        if self.framed is None:
            return None
        one = records.slice(row, 1)
        frames = self.framed.frames(one.column(self.source), _headers(one), self.source)
        found = id_of(frames.schemas[frames.which[0]]) if frames.which[0] >= 0 else None
        return found if found is not None and found >= 0 else None

    def records_of(self, records: pa.RecordBatch) -> pa.StringArray:
        """The record name in the schema of each of these payloads; null if there is none."""
        return self.by_frames.records(records.column(self.source), _headers(records), self.source)

    @cached_property
    def decoder(self) -> PayloadDecoder:
        """The decoder. Raises ConfigurationError if the schema is invalid."""
        try:
            return GlueDecoder(self._decoder()) if self.frame == "glue" else self._decoder()
        except PayloadSchemaError as error:
            raise self._unsound(error) from None

    @cached_property
    def by_frames(self) -> FramedDecoder:
        """The decoder of payloads that contain schema ids."""
        assert self.framed is not None
        return FramedDecoder(self.framed, self.engine, dict(self.rename), self.column)

    @property
    def kinds(self) -> KindColumns | None:
        """The columns of each kind of records; None if all records have the same. Raises ConfigurationError."""
        try:
            return None if self.framed is None else self.by_frames.columns
        except PayloadSchemaError as error:
            raise self._unsound(error) from None

    @property
    def names_several_records(self) -> bool:
        """Whether a schema may be of records of several kinds: a file of messages, a union of records."""
        if self.framed is None or not self.framed.kinds:
            return False
        return self.framed.format.indexed or bool(self.by_frames.in_unions)

    def kinds_of(self, records: pa.RecordBatch) -> npt.NDArray[np.int64]:
        """The number of each record's kind; -1 if it has none."""
        return self.by_frames.kinds(records.column(self.source), _headers(records), self.source)

    @property
    def judges_states(self) -> bool:
        """Whether payloads are change events of which one state is judged, the one that is the row's."""
        envelope = self.envelope == "debezium" and self.rules.judges_row_states
        return envelope and not isinstance(self.engine, Nulling)

    @cached_property
    def states(self) -> ChangeStates:
        """The decoder of events that are rejected."""
        nulling = Nulling()
        return ChangeStates(replace(self, engine=nulling), nulling, FORMATS[self.format].around)

    @cached_property
    def _envelopes(self) -> Envelope | None:
        """The object that extracts rows from these payloads' envelopes."""
        if self.envelope == "none":
            return None
        from kseg.segment_reader.payload.debezium import Envelope

        return Envelope(self.by_frames.type, self.engine, self.unavailable_values)

    @property
    def unavailable_values(self) -> Unavailable:
        """What becomes of values that a connector did not have."""
        return Unavailable(self.unavailable, dict(self.rename) if self.into_columns else {})

    @property
    def lineage(self) -> str:
        """The name of the reader's schema in the ledger."""
        return self.place.removeprefix("decode.")

    def _unsound(self, error: PayloadSchemaError) -> ConfigurationError:
        for column, text in self.columns:
            if error.place.startswith(f"column {column}, "):
                where = f"{self.place}.schema.columns.{column}"
                return ConfigurationError.of(where, f"{text!r}: {error.reason}", "correct the type")
        return ConfigurationError.of(f"{self.place}.schema", str(error), "correct the schema")

    def _decoder(self) -> PayloadDecoder:
        form = FORMATS[self.format]
        if form.in_registry is not None and self.schema_text is None:
            raise ConfigurationError.of(f"{self.place}.schema", "is not known before a run is planned", None)
        return form.decoder(self)

    @property
    def times(self) -> Any:
        return {"nanoseconds": self.nanoseconds, "out_of_range_times": self.out_of_range_times}

    def unwrapped(self, decoder: PayloadDecoder) -> PayloadDecoder:
        """The decoder of the records within the envelope around this decoder's rows, if there is an envelope."""
        if self.envelope == "none":
            return decoder
        from kseg.segment_reader.payload.debezium import DebeziumDecoder

        return DebeziumDecoder(decoder, self.engine, self.unavailable_values)

    def __getstate__(self) -> dict[str, Any]:
        # The decoder is made where it runs: it holds compiled code and buffers.
        return {name: value for name, value in self.__dict__.items() if name not in _MADE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)


def _headers(records: pa.RecordBatch) -> pa.ListArray | None:
    return records.column("headers") if "headers" in records.schema.names else None


def in_parts(records: pa.RecordBatch, decode: Callable[[pa.RecordBatch], T]) -> Iterator[T]:
    """`decode(records)`; if their rows do not fit into one batch, that of the halves, and so on, in order."""
    try:
        whole = decode(records)
    except TooLargeForOneBatch:
        if len(records) <= 1:
            raise
        half = len(records) // 2
        yield from in_parts(records.slice(0, half), decode)
        yield from in_parts(records.slice(half), decode)
    else:
        yield whole
