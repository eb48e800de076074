"""What a format of payloads implements: `SchemaFormat`, if its schemas may be in a registry; and what it is given.

avro          the reader's schema is an Avro schema; payloads are resolved to it
json_schema   the reader's schema is a list of columns (`segment_reader.payload.row_schema`), matched by name
protobuf      the same, matched by field number; the registry's text is stored as descriptors
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import pyarrow as pa

from kseg.etl.decoding.rules import DecodingRules
from kseg.segment_reader.payload.decoder import PayloadDecoder
from kseg.segment_reader.payload.plain import Engine
from kseg.segment_reader.payload.unavailable import Unavailable

Uses = Sequence[str] | Mapping[str, str]
"""Texts of the schemas that a schema uses; by name where the format has such names."""

Options = tuple[tuple[str, Any], ...]
"""Those given of a decoder's options, by name."""


class SchemaFormat(Protocol):
    """Growth of the reader's schema, and decoders for each writer's schema.

    Picklable, because workers create their decoders from it. All methods raise PayloadSchemaError for a schema that is
    invalid or has no column type.
    """

    @property
    def indexed(self) -> bool:
        """Whether message indexes follow the schema's id in the payload."""

    @property
    def self_describing(self) -> bool:
        """Whether payloads can be read without their schema, as documents can."""

    def reader(self, text: str) -> Any:
        """A reader's schema from the ledger."""

    def writer(self, text: str, uses: Uses = ()) -> Any: ...

    def parts(self, writer: Any, takes: Callable[[str | None], bool]) -> Iterator[Any]:
        """The writer's schemas of those records that are taken, by name: of a union of records, each is one."""

    def first(self, writer: Any) -> Any:
        """The reader's schema of a table that has this writer's columns."""

    def merged(self, reader: Any, writer: Any, *, add_fields: bool, widen: bool = False) -> Any:
        """The reader's schema with the writer's additional fields; the same object if there are none."""

    def with_lacking(self, writer: Any, reader: Any) -> Any:
        """A reader's schema of the writer's columns, followed by columns that only the reader's schema has."""

    def records(self, writer: Any) -> tuple[str, ...]:
        """Record names (as in RecordNameStrategy) of the schema; () if it has none."""

    def in_union(self, writer: Any) -> bool:
        """Whether the schema is a union of records, and payloads begin with the number of theirs."""

    def record(self, writer: Any, message: tuple[int, ...] = ()) -> str | None:
        """The record name of a payload with this schema (and message, if the format has messages); None if unknown.

        Raises PayloadSchemaError: there is no such message.
        """

    def of_record(self, record: str) -> SchemaFormat:
        """The format for payloads of this record only, if a schema may have several records."""

    def columns(self, writer: Any, reader: Any) -> tuple[str, ...]:
        """The reader's columns in which rows of this writer may have values; () if it has no columns."""

    def unknown(self, writer: Any, reader: Any) -> tuple[str, ...]:
        """Paths of the writer's fields that the reader's schema lacks."""

    def type(self, reader: Any) -> pa.DataType: ...

    def text(self, reader: Any) -> str:
        """The text that the ledger stores."""

    def decoder(
        self, writer: Any, reader: Any, message: tuple[int, ...] = (), *, engine: Engine = "fast"
    ) -> PayloadDecoder:
        """message: message indexes, if the format has messages; the number of the record, if the schema is a union.

        Columns that the decoder's rows lack are null.
        """


class RegistryPayload(Protocol):
    """What `decode.key` or `decode.value` says of payloads whose schemas are in a registry."""

    @property
    def format(self) -> str: ...
    @property
    def unknown(self) -> str | None: ...
    @property
    def timestamp_format(self) -> str | None: ...
    @property
    def date_format(self) -> str | None: ...
    @property
    def time_zone(self) -> str | None: ...
    @property
    def nanoseconds(self) -> Literal["fail", "truncate"]: ...
    @property
    def out_of_range_times(self) -> Literal["fail", "set_null"]: ...
    @property
    def message(self) -> str | None: ...
    @property
    def defaults(self) -> str | None: ...
    @property
    def several(self) -> bool: ...


class DeclaredPayload(Protocol):
    """The plan of keys or values without a registry's schemas, as far as decoders need it: see `PayloadPlan`."""

    @property
    def format(self) -> str: ...
    @property
    def place(self) -> str: ...
    @property
    def columns(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def schema_text(self) -> str | None: ...
    @property
    def json(self) -> tuple[tuple[str, Any], ...]: ...
    @property
    def message(self) -> str | None: ...
    @property
    def times(self) -> Any:
        """What becomes of times below a microsecond and far ones, as options of decoders by name."""

    @property
    def envelope(self) -> Literal["none", "debezium"]: ...
    @property
    def unavailable_values(self) -> Unavailable: ...
    @property
    def engine(self) -> Engine: ...
    @property
    def rules(self) -> DecodingRules: ...

    def unwrapped(self, decoder: PayloadDecoder) -> PayloadDecoder:
        """The decoder of the records within the envelope around this decoder's rows, if there is an envelope."""


def times_of(payload: RegistryPayload) -> Options:
    """The options that are given of times below a microsecond, and of far ones."""
    names = ("nanoseconds", "out_of_range_times")
    return tuple((name, given) for name in names if (given := getattr(payload, name)) != "fail")
