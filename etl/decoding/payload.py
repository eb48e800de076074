"""How keys or values of a job are decoded: plain values that travel to workers, and the decoder that they make there.

Workers load no job file: what they need of it is here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from kseg.etl.errors import ConfigurationError
from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadDecoder, PayloadError
from kseg.segment_reader.payload.errors import PayloadSchemaError


@dataclass(frozen=True)
class PayloadPlan:
    """One of key and value. Picklable.

    format, schema_text, columns, json: as the job file has them (`etl.config.decoding.Payload`); json: the options of
    its decoder by name. column: what a value that is no record is called, and a record that stays a struct.
    into_columns: a record's fields become columns. rename: of these, by the field's name. section: path in the job file
    of what has keys and values, empty where there is none. message, nanoseconds: of Protobuf. envelope: what is around
    records, whose fields are those of its rows.
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
    envelope: Literal["none", "debezium"] = "none"

    @property
    def place(self) -> str:
        """Its path in the job file."""
        return f"{self.section}.{self.source}".lstrip(".")

    @property
    def type(self) -> pa.DataType:
        """The type of its rows, for every payload. Raises ConfigurationError where the schema is not sound."""
        return self.decoder.type

    def decode(self, records: pa.RecordBatch) -> DecodedPayloads:
        """The keys or values of these records as rows, one each."""
        return self.decoder.decode(records.column(self.source))

    def explain(self, records: pa.RecordBatch, row: int) -> PayloadError:
        """Why this record's key or value has no row."""
        return self.decoder.explain(records.column(self.source)[row].as_py())

    @cached_property
    def decoder(self) -> PayloadDecoder:
        """Raises ConfigurationError where the schema is not sound."""
        try:
            return self._decoder()
        except PayloadSchemaError as error:
            raise ConfigurationError.of(f"{self.place}.schema", str(error), "correct the schema") from None

    def _decoder(self) -> PayloadDecoder:
        if self.format in ("json", "connect_json", "json_schema"):
            from kseg.etl.decoding.json_formats import json_format_decoder

            debezium = self.envelope == "debezium"
            return json_format_decoder(
                self.format, dict(self.columns), self.schema_text, dict(self.json), debezium=debezium
            )
        if self.format == "avro":
            from kseg.segment_reader.payload.avro.decoder import avro_decoder
            from kseg.segment_reader.payload.avro.schema import parse_schema

            if self.schema_text is None:
                text = "schemas of a registry are not read yet"
                raise ConfigurationError.of(f"{self.place}.schema", text, "write {file: orders.avsc}")
            decoder = avro_decoder(parse_schema(self.schema_text))
            if self.envelope == "debezium":
                from kseg.segment_reader.payload.debezium import DebeziumDecoder

                return DebeziumDecoder(decoder)
            return decoder
        if self.format == "protobuf":
            from kseg.segment_reader.payload.protobuf.decoder import protobuf_decoder
            from kseg.segment_reader.payload.protobuf.descriptors import parse_base64

            if self.schema_text is None:
                text = "Protobuf schemas of a registry are not read yet"
                raise ConfigurationError.of(f"{self.place}.schema", text, "write {file: orders.proto}")
            message = parse_base64(self.schema_text).message(self.message)
            return protobuf_decoder(message, nanoseconds=self.nanoseconds)
        from kseg.segment_reader.payload.primitives import primitive_decoder

        return primitive_decoder(self.format)

    def __getstate__(self) -> dict[str, Any]:
        # The decoder is made where it runs: it holds compiled code and buffers.
        return {name: value for name, value in self.__dict__.items() if name != "decoder"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
