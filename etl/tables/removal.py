"""Which rows a commit removes: those of given addresses (replace), or those that one run landed (abandon).

A removal is decided per file: by the file's statistics where they are enough, else by reading the columns that decide.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.tables.parquet.schema import ADDRESS_TYPES, RUN_COLUMN, AddressColumns
from kseg.etl.tables.parquet.statistics import STRING_PREFIX


class Verdict(Enum):
    """What statistics say of a file: none of its rows, all of them, or that it has to be read."""

    NONE = "none"
    ALL = "all"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column in one file. `None` where nothing is known; nulls: how many, None where unknown.

    A bound of a long string is a prefix (lower) or a prefix with a tie-breaker (upper): it bounds, it is no value.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None

    @property
    def constant(self) -> Any:
        """The one value that all rows of the file have; None where they differ, or where it is unknown."""
        if self.low is None or self.low != self.high or self.nulls != 0:
            return None
        if isinstance(self.low, str) and len(self.low) >= STRING_PREFIX:
            return None
        return self.low

    def may_hold(self, value: Any) -> bool:
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


class Removal(Protocol):
    """Rows to remove."""

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        """The columns that decide, as the table calls them, and the types that `mask` wants."""

    def verdict(self, bounds: Mapping[str, Bounds]) -> Verdict:
        """By statistics; columns that a file has no bounds for are left out."""

    def mask(self, columns: Mapping[str, pa.Array], rows: int) -> pa.BooleanArray:
        """True for the rows to remove, never null."""

    def sql(self) -> str:
        """The same as a predicate of Spark's SQL."""


@dataclass(frozen=True, slots=True)
class OfRun:
    """The rows that a run has landed."""

    run_id: str

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return {RUN_COLUMN: pa.string()}

    def verdict(self, bounds: Mapping[str, Bounds]) -> Verdict:
        known = bounds.get(RUN_COLUMN, Bounds())
        if not known.may_hold(self.run_id):
            return Verdict.NONE
        return Verdict.ALL if known.constant == self.run_id else Verdict.UNKNOWN

    def mask(self, columns: Mapping[str, pa.Array], rows: int) -> pa.BooleanArray:
        return pc.fill_null(pc.equal(columns[RUN_COLUMN], self.run_id), False)

    def sql(self) -> str:
        return f"{quoted(RUN_COLUMN)} = {literal(self.run_id)}"


@dataclass(frozen=True, slots=True)
class OfAddresses:
    """The rows of given offsets. address: the columns that hold it; offsets: by partition."""

    address: AddressColumns
    offsets: Mapping[TopicPartition, OffsetSet]

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        return dict(zip(self.address, ADDRESS_TYPES, strict=True))

    def verdict(self, bounds: Mapping[str, Bounds]) -> Verdict:
        topic, partition, offset = (bounds.get(name, Bounds()) for name in self.address)
        meeting = [
            intervals
            for tp, intervals in self.offsets.items()
            if topic.may_hold(tp.topic)
            and partition.may_hold(tp.partition)
            and any(
                (offset.high is None or start <= offset.high) and (offset.low is None or offset.low < end)
                for start, end in intervals
            )
        ]
        if not meeting:
            return Verdict.NONE
        one = topic.constant is not None and partition.constant is not None and offset.nulls == 0
        if one and offset.low is not None and offset.high is not None and len(meeting) == 1:
            inside = any(start <= offset.low and offset.high < end for start, end in meeting[0])
            return Verdict.ALL if inside else Verdict.UNKNOWN
        return Verdict.UNKNOWN

    def mask(self, columns: Mapping[str, pa.Array], rows: int) -> pa.BooleanArray:
        topics, partitions, offsets = (columns[name] for name in self.address)
        hit = np.zeros(rows, dtype=bool)
        numbers = pc.fill_null(offsets, -1).to_numpy(zero_copy_only=False)
        for tp, intervals in self.offsets.items():
            here = pc.and_kleene(pc.equal(topics, tp.topic), pc.equal(partitions, tp.partition))
            there = pc.fill_null(here, False).to_numpy(zero_copy_only=False)
            if not there.any():
                continue
            starts = np.array([start for start, _ in intervals], dtype=np.int64)
            ends = np.array([end for _, end in intervals], dtype=np.int64)
            at = np.searchsorted(starts, numbers, side="right") - 1
            hit |= there & (at >= 0) & (numbers < ends[at])
        return pa.array(hit)

    def sql(self) -> str:
        topic, partition, offset = (quoted(name) for name in self.address)
        ranges = [
            f"({topic} = {literal(tp.topic)} AND {partition} = {tp.partition}"
            f" AND {offset} >= {start} AND {offset} < {end})"
            for tp, intervals in sorted(self.offsets.items())
            for start, end in intervals
        ]
        return " OR ".join(ranges) or "false"


def quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A string in Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
