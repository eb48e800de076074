"""Rows that a commit removes: the rows of given addresses (replace), or the rows of one run (abandon).

A removal is evaluated for each file: by its statistics if they are sufficient, otherwise by reading the relevant
columns. A table may have rows of several sources at one address: a replacement removes only rows of its own source
(`RowOwner`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import NO_END
from kseg.etl.rows.names import RUN_COLUMN, AddressColumns
from kseg.etl.rows.types import ADDRESS_TYPES
from kseg.etl.tables.parquet.statistics import STRING_PREFIX


class Verdict(Enum):
    """The result of a file's statistics: no rows match, all rows match, or the file must be read."""

    NONE = "none"
    ALL = "all"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column in one file; None if unknown. nulls: number of nulls, None if unknown.

    For long strings, a bound is a prefix (lower) or a prefix with a tie-breaker (upper), and not a value of the column.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None

    @property
    def constant(self) -> Any:
        """The value that all rows of the file have; None if they differ, or if it is unknown."""
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
        """The relevant columns, with their names in the table and the types that `mask` requires."""

    def verdict(self, bounds: Mapping[str, Bounds]) -> Verdict:
        """The result by statistics; `bounds` lacks columns for which the file has no bounds."""

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


class RowOwner(Protocol):
    """Decides by a row's run whether the row belongs to the source whose offsets are replaced."""

    def owned_below(self, run_id: str | None, tp: TopicPartition) -> int:
        """The offset below which rows of this run belong to the partition; 0 for rows of another source or ledger.

        Raises:
            Refused: the run's source is unknown.
        """

    def owns_all(self, lowest: str, highest: str, tp: TopicPartition) -> bool:
        """Whether all rows with run ids between these two belong to the source; False if this is not certain."""


@dataclass(frozen=True, slots=True)
class _Intervals:
    """The intervals of an OffsetSet that is not empty, as arrays of int64 in ascending order; ends are exclusive.

    A compacted topic's set may have millions, and each file and each batch of rows is compared with it.
    """

    starts: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]

    @classmethod
    def of(cls, offsets: OffsetSet) -> _Intervals:
        pairs = np.array(offsets.intervals, dtype=np.int64)
        return cls(np.ascontiguousarray(pairs[:, 0]), np.ascontiguousarray(pairs[:, 1]))

    def meet(self, low: int | None, high: int | None) -> bool:
        """Whether an offset from `low` to `high` inclusive is in the set. None: no bound."""
        first = 0 if low is None else int(np.searchsorted(self.ends, low, side="right"))
        return first < len(self.starts) and (high is None or bool(self.starts[first] <= high))

    def hold(self, low: int, high: int) -> bool:
        """Whether all offsets from `low` to `high` inclusive are in the set."""
        at = int(np.searchsorted(self.starts, low, side="right")) - 1
        return at >= 0 and bool(high < self.ends[at])

    def mask(self, offsets: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of these offsets are in the set."""
        at = np.searchsorted(self.starts, offsets, side="right") - 1
        found: npt.NDArray[np.bool_] = (at >= 0) & (offsets < self.ends[at])
        return found


@dataclass(frozen=True, slots=True)
class OfAddresses:
    """The rows of given offsets. address: the address columns; offsets: by partition.

    owner: rows of other sources at the same addresses stay; None: rows of all runs are removed.
    """

    address: AddressColumns
    offsets: Mapping[TopicPartition, OffsetSet]
    owner: RowOwner | None = None
    _intervals: Mapping[TopicPartition, _Intervals] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        intervals = {tp: _Intervals.of(offsets) for tp, offsets in self.offsets.items() if offsets}
        object.__setattr__(self, "_intervals", intervals)

    @property
    def columns(self) -> Mapping[str, pa.DataType]:
        of_address = dict(zip(self.address, ADDRESS_TYPES, strict=True))
        return of_address if self.owner is None else {**of_address, RUN_COLUMN: pa.string()}

    def verdict(self, bounds: Mapping[str, Bounds]) -> Verdict:
        topic, partition, offset = (bounds.get(name, Bounds()) for name in self.address)
        meeting = [
            (tp, intervals)
            for tp, intervals in self._intervals.items()
            if topic.may_hold(tp.topic) and partition.may_hold(tp.partition) and intervals.meet(offset.low, offset.high)
        ]
        if not meeting:
            return Verdict.NONE
        one = topic.constant is not None and partition.constant is not None and offset.nulls == 0
        if one and offset.low is not None and offset.high is not None and len(meeting) == 1:
            tp, intervals = meeting[0]
            inside = intervals.hold(offset.low, offset.high)
            return Verdict.ALL if inside and self._owns_all(bounds, tp) else Verdict.UNKNOWN
        return Verdict.UNKNOWN

    def _owns_all(self, bounds: Mapping[str, Bounds], tp: TopicPartition) -> bool:
        if self.owner is None:
            return True
        run = bounds.get(RUN_COLUMN, Bounds())
        if run.nulls != 0 or not isinstance(run.low, str) or not isinstance(run.high, str):
            return False
        return self.owner.owns_all(run.low, run.high, tp)

    def mask(self, columns: Mapping[str, pa.Array], rows: int) -> pa.BooleanArray:
        topics, partitions, offsets = (columns[name] for name in self.address)
        hit = np.zeros(rows, dtype=bool)
        numbers = pc.fill_null(offsets, -1).to_numpy(zero_copy_only=False)
        for tp, intervals in self._intervals.items():
            here = pc.and_kleene(pc.equal(topics, tp.topic), pc.equal(partitions, tp.partition))
            there = pc.fill_null(here, False).to_numpy(zero_copy_only=False)
            if not there.any():
                continue
            hit_here = there & intervals.mask(numbers)
            if self.owner is not None and hit_here.any():
                hit_here &= numbers < self._owned_below(self.owner, tp, columns[RUN_COLUMN], hit_here)
            hit |= hit_here
        return pa.array(hit)

    def _owned_below(
        self, owner: RowOwner, tp: TopicPartition, runs: pa.Array, hit: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """By row, the offset below which its run's rows belong to the partition; only for runs of matching rows."""
        encoded = pc.dictionary_encode(runs, null_encoding="encode")
        encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
        numbers = encoded.indices.to_numpy(zero_copy_only=False)
        names = encoded.dictionary.to_pylist()
        below = np.zeros(len(names), dtype=np.int64)
        for number in np.unique(numbers[hit]).tolist():
            below[number] = owner.owned_below(names[number], tp)
        of_rows: np.ndarray[Any, Any] = below[numbers]
        return of_rows

    def of_runs(self, found: Iterable[tuple[TopicPartition, str | None]], own: str) -> OfAddresses:
        """The same removal for a writer that accepts only a predicate.

        found: the runs of all rows at these addresses. own: the replacing run, whose rows must match the predicate.
        """
        owner = self.owner
        assert owner is not None
        below: dict[TopicPartition, dict[str, int]] = {tp: {own: NO_END} for tp in self.offsets}
        for tp, run_id in found:
            if run_id is not None and (first := owner.owned_below(run_id, tp)):
                below.setdefault(tp, {})[run_id] = first
        return replace(self, owner=_Listed(below))

    def sql(self) -> str:
        topic, partition, offset = (quoted(name) for name in self.address)
        of_partitions = []
        for tp, intervals in sorted(self.offsets.items()):
            ranges = " OR ".join(f"({offset} >= {start} AND {offset} < {end})" for start, end in intervals)
            owned = f" AND ({self.owner.sql(tp, offset)})" if isinstance(self.owner, _Listed) else ""
            if ranges:
                here = f"{topic} = {literal(tp.topic)} AND {partition} = {tp.partition}"
                of_partitions.append(f"({here} AND ({ranges}){owned})")
        return " OR ".join(of_partitions) or "false"


@dataclass(frozen=True, slots=True)
class _Listed:
    """An owner whose runs are all known: `below` has, by partition and run, what `owned_below` returns."""

    below: Mapping[TopicPartition, Mapping[str, int]]

    def owned_below(self, run_id: str | None, tp: TopicPartition) -> int:
        return self.below.get(tp, {}).get(run_id or "", 0)

    def owns_all(self, lowest: str, highest: str, tp: TopicPartition) -> bool:
        return lowest == highest and self.owned_below(lowest, tp) == NO_END

    def sql(self, tp: TopicPartition, offset: str) -> str:
        by_end: dict[int, list[str]] = {}
        for run_id, below in self.below.get(tp, {}).items():
            by_end.setdefault(below, []).append(literal(run_id))
        return " OR ".join(
            f"({quoted(RUN_COLUMN)} IN ({', '.join(sorted(runs))}) AND {offset} < {below})"
            for below, runs in sorted(by_end.items())
        )


def quoted(name: str) -> str:
    """A column's name in Spark's SQL."""
    return f"`{name.replace('`', '``')}`"


def literal(text: str) -> str:
    """A string in Spark's SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
