"""Derived partition columns, computed in the worker: `sink.partition_by: [{day: created_at}]`.

    day      date                        of a timestamp (in UTC if it has a time zone) or a date
    month    text, 2026-11               as Spark's date_format(created_at, 'yyyy-MM')
    hour     text, 2026-11-23-19         as Spark's date_format(created_at, 'yyyy-MM-dd-HH'), of a timestamp
    bucket   int, 0 to n - 1             as Spark's pmod(hash(id), n): of integers, strings, binary and dates

A null gives null. Users of Spark SQL filter by the same expressions; the order of the texts is that of the times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.decoding.kinds import columns_named, plain_name
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.tables.errors import UnlandableRow
from kseg.etl.transform.frame_schema import arrow_schema_of, with_small_offsets
from kseg.etl.transform.step import Address, BatchStep, FrameStep
from kseg.segment_reader.payload.ddl import type_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kseg.etl.decoding.bad_records import BadRecords

_SECONDS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY: Final = 86_400
_YEARS: Final = np.array(["0001-01-01", "10000-01-01"], "M8[D]")


@dataclass(frozen=True)
class DerivedColumn:
    """One column. function: day, hour, month or bucket. column: its source column. place: its place in the job file."""

    name: str
    function: str
    column: str
    buckets: int = 0
    place: str = "sink.partition_by"

    def __str__(self) -> str:
        return f"bucket({self.buckets}, {self.column})" if self.buckets else f"{self.function}({self.column})"

    def field(self, rows: pa.Schema) -> pa.Field:
        """The column's name and type. Raises ConfigurationError if it cannot be derived from these rows."""
        found = columns_named(rows.names, self.column)
        known = dict.fromkeys(map(plain_name, rows.names))
        if not found:
            message = f"the rows have no column {self.column}"
            raise ConfigurationError.of(self.place, message, f"they have {', '.join(known)}")
        if self.name.lower() in (name.lower() for name in known):
            message = f"the rows have a column {self.name} of their own"
            raise ConfigurationError.of(self.place, message, "give the partition another name with `as`")
        for kind in (rows.field(name).type for name in found):
            if not self._takes(kind):
                of = "an integer, string, binary or date" if self.buckets else "a timestamp"
                of += " or date" if self.function in ("day", "month") else ""
                message = f"{self.function} is made of {of}, and {self.column} is {type_name(kind)}"
                raise ConfigurationError.of(self.place, message, "cast it in the transform, or use another column")
        return pa.field(self.name, {"day": pa.date32(), "bucket": pa.int32()}.get(self.function, pa.string()))

    def _takes(self, kind: pa.DataType) -> bool:
        types = pa.types
        if self.function == "bucket":
            return kind in _HASHED or types.is_date32(kind)
        return bool(types.is_timestamp(kind) or (types.is_date32(kind) and self.function != "hour"))

    def of_rows(self, rows: pa.RecordBatch) -> pa.Array:
        """The column's values for these rows. With several kinds of records, a row's kind decides the source column."""
        made = [self.of(rows.column(name)) for name in columns_named(rows.schema.names, self.column)]
        return made[0] if len(made) == 1 else pc.coalesce(*made)

    def of(self, column: pa.Array) -> pa.Array:
        """The column's values, one for each source value. Raises UnlandableRow if a year is outside of the calendar."""
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if self.function == "bucket":
            return self._bucket(column)
        nulls = np.asarray(column.is_null())
        if pa.types.is_date32(column.type):
            seconds = _filled(column.view(pa.int32())).astype(np.int64) * _DAY
        else:
            seconds = _filled(column.view(pa.int64())) // _SECONDS[column.type.unit]
        if self.function == "hour":
            return self._text(seconds // 3600, nulls, _hour)
        days = seconds // _DAY
        if self.function == "month":
            return self._text(days, nulls, _month)
        self._check(days[~nulls])
        return pa.array(days.astype(np.int32), pa.int32(), mask=nulls).view(pa.date32())

    def _text(self, values: npt.NDArray[np.int64], nulls: npt.NDArray[np.bool_], text: _Text) -> pa.Array:
        found, which = np.unique(values, return_inverse=True)
        if not len(found):
            return pa.array([], pa.string())
        self._check(found // 24 if text is _hour else found)
        return pa.DictionaryArray.from_arrays(
            pa.array(which.astype(np.int32), mask=nulls), pa.array([text(int(one)) for one in found])
        ).cast(pa.string())

    def _check(self, days: npt.NDArray[np.int64]) -> None:
        if len(days) and not (_YEARS[0].astype(np.int64) <= days.min() and days.max() < _YEARS[1].astype(np.int64)):
            raise UnlandableRow(self.column, f"no {self.function} can be made of a time outside of the years 1 to 9999")

    def _bucket(self, column: pa.Array) -> pa.Array:
        from kseg.etl.transform.spark_hash import spark_hash

        nulls = np.asarray(column.is_null())
        return pa.array(np.mod(spark_hash(column), self.buckets).astype(np.int32), pa.int32(), mask=nulls)


_Text = Callable[[int], str]
_HASHED: Final = frozenset([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.string(), pa.binary()])


def _filled(values: pa.Array) -> npt.NDArray[np.int64]:
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _month(day: int) -> str:
    return str(np.datetime64(day, "D").astype("M8[M]"))


def _hour(hour: int) -> str:
    return str(np.datetime64(hour, "h")).replace("T", "-")


def with_derived(rows: pa.RecordBatch, columns: Sequence[DerivedColumn]) -> pa.RecordBatch:
    """The rows, followed by these columns."""
    made = [column.of_rows(rows) for column in columns]
    names = [*rows.schema.names, *(column.name for column in columns)]
    return pa.RecordBatch.from_arrays([*rows.columns, *made], names=names)


def schema_with(rows: pa.Schema, columns: Sequence[DerivedColumn]) -> pa.Schema:
    """Raises ConfigurationError."""
    for column in columns:
        rows = rows.append(column.field(rows))
    return rows


@dataclass(frozen=True)
class DeriveStep(BatchStep):
    """The last step on batches, if no step on the DataFrame follows."""

    columns: tuple[DerivedColumn, ...]
    place: str = "sink.partition_by"

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return schema_with(rows, self.columns)

    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        try:
            return with_derived(batch, self.columns)
        except UnlandableRow as error:
            failed = ArrowStepError(
                error.message,
                remedy="set `decode.on_error: dead_letter` to set such records aside, or correct them in a step",
                **address,
                step=self.place,
            )
            failed.step, failed.raised = self.place, error.message  # a record is the reason, as in a step of the user
            raise failed from error


@dataclass(frozen=True)
class DeriveFrameStep(FrameStep):
    """The same step after steps on the DataFrame."""

    columns: tuple[DerivedColumn, ...]
    place: str = "sink.partition_by"

    def apply(self, rows: DataFrame) -> DataFrame:
        from pyspark.sql.pandas.types import from_arrow_schema

        wanted = schema_with(arrow_schema_of(rows), self.columns)
        columns, before = self.columns, len(rows.schema.fields)

        def kseg_derive(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                yield with_derived(with_small_offsets(batch), columns)

        fields = from_arrow_schema(wanted).fields[before:]
        return rows.mapInArrow(kseg_derive, type(rows.schema)([*rows.schema.fields, *fields]))
