"""Rows as addresses and digests of their values, which `kseg verify` compares: digests of records are made where these
are read, in the workers of any executor, and those of a table's rows in the driver."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.rows.names import OWN_ADDRESS, ROUTE_COLUMN, AddressColumns
from kseg.etl.tasks.packs import TaskAttempt

RowAddress = tuple[str, int, int]

DIGEST = "digest"


@dataclass(frozen=True, slots=True)
class DigestWrite:
    """Returns the address and digest of each of a task's rows; picklable.

    address: the rows' address columns. columns: the ones to digest. routes: only rows with one of these routes; empty:
    all rows. offsets: only rows at these offsets; None: all rows.
    """

    address: AddressColumns
    columns: Sequence[str]
    routes: Sequence[str] = ()
    offsets: Mapping[TopicPartition, OffsetSet] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch], attempt: TaskAttempt) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if self.routes:
                batch = batch.filter(pc.is_in(batch.column(ROUTE_COLUMN), pa.array(self.routes, pa.string())))
            if self.offsets is not None:
                batch = batch.filter(pa.array(map(self._holds, addresses(batch, self.address)), pa.bool_()))
            if batch.num_rows:
                digest = pa.array(digests(batch, self.columns), pa.binary())
                columns = [*(batch.column(name) for name in self.address), digest]
                yield pa.RecordBatch.from_arrays(columns, [*OWN_ADDRESS, DIGEST])

    def _holds(self, address: RowAddress) -> bool:
        topic, partition, offset = address
        return self.offsets is None or offset in self.offsets.get(TopicPartition(topic, partition), EMPTY)


def addresses(batch: pa.RecordBatch, columns: AddressColumns) -> Iterator[RowAddress]:
    """The address of each row."""
    return zip(*(batch.column(name).to_pylist() for name in columns), strict=True)


def digests(batch: pa.RecordBatch, columns: Sequence[str]) -> list[bytes]:
    """A 128-bit digest of each row's values in these columns. Missing columns count as null. Names are matched as Spark
    does, without regard to case."""
    if not columns:
        return [b""] * batch.num_rows
    spelled = {name.lower(): at for at, name in enumerate(batch.schema.names)}
    places = [spelled.get(name.lower()) for name in columns]
    nulls = [None] * batch.num_rows
    values = [nulls if at is None else _values(batch.column(at)) for at in places]
    return [hashlib.blake2b(repr(row).encode(), digest_size=16).digest() for row in zip(*values, strict=True)]


def _values(column: pa.Array) -> list[Any]:
    """Values that are equal if Spark's are. Times become integers: Python's datetime cannot represent all of them."""
    kind = column.type
    values = column.cast(_plain(kind)).to_pylist()
    return [*map(_ordered, values)] if pa.types.is_nested(kind) else values


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_timestamp(kind):
        return pa.int64()
    if types.is_date(kind):
        return pa.int32()
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(child.name, _plain(child.type)) for child in kind])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind):
        return pa.list_(_plain(kind.value_type))
    texts = (types.is_string, types.is_large_string, types.is_string_view)
    bytes_ = (types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return pa.binary() if any(is_one(kind) for is_one in (*texts, *bytes_)) else kind


def _ordered(value: Any) -> Any:
    """A struct as a tuple without field names, a map sorted by its keys."""
    if isinstance(value, dict):
        return tuple(map(_ordered, value.values()))
    if isinstance(value, list):
        if value and isinstance(value[0], tuple):
            return {"map": sorted(((key, _ordered(item)) for key, item in value), key=repr)}
        return [*map(_ordered, value)]
    return value
