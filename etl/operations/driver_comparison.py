"""Compare one small table with Kafka in this process, without a JVM, by the same rules as `spark_comparison`.

    rows of the table (delta-rs) ─► in a compared range? ─► which claim has its run here? ─► by address ─┐
    rows of Kafka (the tasks' reader, in turn) ───────────────────────────────────────────► by address ─┴─► verdicts

For 100,000 rows, this takes less time than Spark needs to start and to plan its query. Of each row, only a digest is
kept in memory, by address.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any, Final, overload

import numpy as np
import pyarrow as pa

from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.expected_rows import ADDRESS_ALONE, ExpectedRows, Part, Reading
from kseg.etl.operations.landings import TableLandings
from kseg.etl.operations.verdicts import (
    CLAIMS,
    FOREIGN,
    KEPT,
    MAX_FINDINGS,
    NO_RUN,
    NOT_COMPARED,
    OLDER,
    REPLACED,
    STANDING,
    FoundAt,
    Group,
    Seen,
    lacks_record,
    older_claims,
    rules,
)
from kseg.etl.rows.names import LATE_COLUMN, RUN_COLUMN, AddressColumns
from kseg.etl.rows.types import delta_type
from kseg.etl.source.packing import NO_ROUTES
from kseg.etl.tasks.packs import AttemptNumbers, PackPlan

MOST_ROWS: Final = 100_000
"""Spark compares tables with more rows, or with more offsets to read again."""

MOST_FILE_BYTES: Final = 64 << 20
MOST_ROW_BYTES: Final = 512 << 20
"""Limit of the Arrow data of both sides together. Only one batch of it is in memory at a time."""

_STANDS: Final = (STANDING, KEPT, OLDER)

_Address = tuple[str, int, int]
_Digest = tuple[int, bytes] | None
"""A row's kind and digest; None if only its address is compared."""


class TooLarge(Exception):
    """The rows take more memory than the size of their files suggests: Spark has to compare them."""


@dataclass(slots=True)
class _Row:
    run: str | None
    claim: int
    digest: _Digest


@dataclass(slots=True)
class _Due:
    """The rows that are due at an address. exact: whether whole rows are compared, and not only the address."""

    digests: list[_Digest]
    exact: bool


@dataclass
class DriverComparison:
    """The comparison of one table, read with delta-rs.

    others: marks (prefixes of the run ids) of other jobs in the table. schema: the table's. address: its address
    columns.
    """

    expected: ExpectedRows
    others: frozenset[str]
    schema: pa.Schema
    address: AddressColumns
    partition_by: Sequence[str] = ()
    _budget: _Budget = field(default_factory=lambda: _Budget())
    _by_run: Counter[str | None] = field(default_factory=Counter)
    _late: list[FoundAt] = field(default_factory=list)
    _lacking: dict[_Address, FoundAt] = field(default_factory=dict)
    _exact: dict[_Address, bool | None] = field(default_factory=dict)

    def groups(self) -> list[Group]:
        """Addresses by verdict.

        Raises:
            TooLarge: Spark has to compare these rows.
            KafkaError, KsegError: either side cannot be read.
        """
        columns = self.expected.columns(self.schema.names)
        # The table first: the state was read before it, and records produced since are above the compared offsets.
        rows = self._rows_of_table(columns)
        due = self._rows_of_kafka(columns)
        return self._judged(rows, due)

    def with_record(self, topics: Collection[str]) -> list[Group]:
        """The rows whose record is not due in the table although these topics have a record at their address."""
        part = self.expected.of_all_records()
        there = {
            address
            for batch in self._records(self.expected.reading(part, self._arrow, []), part)
            for address in _addresses(batch, part.address)
            if address in self._lacking and address[0] in topics
        }
        grouped: dict[tuple[bool | None, str], list[FoundAt]] = {}
        for address in sorted(there):
            grouped.setdefault((self._exact[address], address[0]), []).append(self._lacking[address])
        return [
            Group("stranger", "", exact, topic, len(found), found[:MAX_FINDINGS])
            for (exact, topic), found in grouped.items()
        ]

    def late_marks(self) -> tuple[int, Sequence[FoundAt]]:
        """The number of rows whose late mark contradicts their timestamp and their run's interval; the first ones."""
        return len(self._late), sorted(self._late)[:MAX_FINDINGS]

    def rows_by_run(self) -> Mapping[str | None, int]:
        """The number of rows by run id, in the whole table."""
        return self._by_run

    # --- the two sides

    def _rows_of_table(self, columns: list[str]) -> dict[_Address, list[_Row]]:
        expected = self.expected
        claims = RowClaims(expected.landed, expected.state, self.others)
        marks = LATE_COLUMN in self.schema.names and not expected.decoded and expected.whole
        late_before = {run.run_id: run.plan.late_before_ms for run in expected.state.runs.values()}
        wanted = [*self.address, RUN_COLUMN, *columns, *((LATE_COLUMN, "timestamp") if marks else ())]
        access = expected.context.targets.access(expected.landed.table)
        assert access is not None
        rows: dict[_Address, list[_Row]] = {}
        for batch in self._budget.spent_on(access.scan(list(dict.fromkeys(wanted)))):
            runs = batch.column(RUN_COLUMN).to_pylist()
            self._by_run.update(runs)
            digests = _digests(batch, columns)
            late = _late(batch) if marks else None
            for at, (address, run) in enumerate(zip(_addresses(batch, self.address), runs, strict=True)):
                if address not in expected:
                    continue
                if late is not None and _is_marked_wrong(late[at], late_before.get(run)):
                    self._late.append(FoundAt(*address))
                claim = claims.of(address, run)
                if claim != NOT_COMPARED:
                    kind = expected.kinds.get(run, expected.kind_of_others)
                    digest = None if kind == ADDRESS_ALONE else (kind, digests[at])
                    rows.setdefault(address, []).append(_Row(run, claim, digest))
        return rows

    def _rows_of_kafka(self, columns: list[str]) -> dict[_Address, _Due]:
        due: dict[_Address, _Due] = {}
        for part in self.expected.parts:
            exact = part.kind != ADDRESS_ALONE
            reading = self.expected.reading(part, self._arrow, columns, self.partition_by)
            for batch in self._records(reading, part):
                digests = _digests(batch, columns if exact else [])
                for address, digest in zip(_addresses(batch, part.address), digests, strict=True):
                    found = due.setdefault(address, _Due([], exact))
                    found.digests.append((part.kind, digest) if exact else None)
                    found.exact = found.exact and exact
        return due

    def _records(self, reading: Reading, part: Part) -> Iterator[pa.RecordBatch]:
        """The rows that the part's records make, in batches: read in packs, as in a run's tasks."""
        origin = self.expected.context.clients.logs.origin
        plan = PackPlan.of(
            reading.tasks, origin, reading.options, reading.steps, routes=NO_ROUTES, mixed=False, cores=1
        )
        for _, readers in plan.readings(range(len(plan.packs)), AttemptNumbers(0, 0)):
            for batch in self._budget.spent_on(chain.from_iterable(readers)):
                if reading.routes:
                    batch = batch.filter(reading.is_routed(batch))
                if reading.beyond:
                    here = [part.holds(address) for address in _addresses(batch, part.address)]
                    batch = batch.filter(pa.array(here, pa.bool_()))
                if batch.num_rows:
                    yield batch

    def _arrow(self, columns: list[str]) -> pa.Schema:
        return pa.schema([pa.field(name, delta_type(self.schema.field(name).type)) for name in columns])

    # --- both, by address

    def _judged(self, rows: dict[_Address, list[_Row]], due: dict[_Address, _Due]) -> list[Group]:
        landed = self.expected.landed
        copies = Intervals((c.topic, c.partition, c.start, c.end, c.copies) for c in landed.copies())
        addresses = sorted(rows.keys() | due.keys())
        seen = [_seen(rows.get(address, ()), due.get(address), copies.at(address, 1)) for address in addresses]
        arrays = np.array(seen, dtype=np.int64).reshape(len(seen), 9).T
        truths = {name: arrays[at] != 0 for at, name in enumerate(("in_kafka", "foreign", "differs"))}
        counts = dict(zip(("times", "standing", "kept", "replaced", "older", "copies"), arrays[3:], strict=True))
        judged = rules(Seen(**truths, **counts), older_once=landed.older_once)
        which = np.select([rule.holds for rule in judged], range(len(judged)), len(judged))
        grouped: dict[tuple[int, bool | None, str | None], tuple[int, list[FoundAt]]] = {}
        for address, number in zip(addresses, which.tolist(), strict=True):
            kind, why = judged[number][1:] if number < len(judged) else (None, "")
            exact = due[address].exact if address in due else None
            lacking = lacks_record(kind, why)
            key = number, exact, address[0] if lacking else None
            count, first = grouped.get(key, (0, []))
            if kind is not None and (lacking or count < MAX_FINDINGS):
                foreign = max(
                    (row.run or NO_RUN for row in rows.get(address, ()) if row.claim == FOREIGN), default=None
                )
                found = FoundAt(*address, foreign)
                if lacking:
                    self._lacking[address], self._exact[address] = found, exact
                if count < MAX_FINDINGS:
                    first.append(found)
            grouped[key] = count + 1, first
        return [
            Group(*(judged[number][1:] if number < len(judged) else (None, "")), exact, topic, count, first)
            for (number, exact, topic), (count, first) in grouped.items()
        ]


def _seen(rows: Sequence[_Row], due: _Due | None, copies: int) -> tuple[int, ...]:
    """The fields of `Seen` for one address, in the order that `_judged` expects."""
    claims = {row.run: row.claim for row in rows}
    standing = sum(claim in _STANDS for claim in claims.values())
    of_claim = Counter(claims.values())
    times = max(Counter(row.run for row in rows).values(), default=0)
    differs = due is not None and any(row.claim in _STANDS and row.digest not in due.digests for row in rows)
    return (
        *(due is not None, FOREIGN in of_claim, differs),
        *(times, standing, of_claim[KEPT], of_claim[REPLACED], of_claim[OLDER], copies),
    )


# --- the ledger's claim on a row


class Intervals:
    """A value for each range of offsets. ranges: (topic, partition, start, end, value); they do not overlap."""

    def __init__(self, ranges: Iterable[tuple[str, int, int, int, int]]) -> None:
        self._of: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
        for topic, partition, start, end, value in ranges:
            self._of.setdefault((topic, partition), []).append((start, end, value))
        for of_partition in self._of.values():
            of_partition.sort()

    @overload
    def at(self, address: _Address) -> int | None: ...
    @overload
    def at(self, address: _Address, default: int) -> int: ...
    def at(self, address: _Address, default: int | None = None) -> int | None:
        """The value at an address; the default where no range has it."""
        topic, partition, offset = address
        ranges = self._of.get((topic, partition), ())
        before = bisect_right(ranges, offset, key=itemgetter(0)) - 1
        if before < 0 or offset >= ranges[before][1]:
            return default
        return ranges[before][2]


class RowClaims:
    """The claim (`verdicts`) of a row's run at the row's address. others: marks of other jobs in the table."""

    def __init__(self, landed: TableLandings, state: JobState, others: frozenset[str]) -> None:
        of_run: dict[str, list[tuple[str, int, int, int, int]]] = {}
        for c in landed.claims():
            of_run.setdefault(c.run_id, []).append((c.topic, c.partition, c.start, c.end, CLAIMS[c.status]))
        self._of_run = {run: Intervals(ranges) for run, ranges in of_run.items()}
        self._older = Intervals(older_claims(landed))
        self._known = {run.run_id for run in state.runs.values() if not run.archived}
        # Early releases gave their runs ids without a mark.
        self._mine = {None, *(mark_of(ledger, state.job) for ledger in (state.ledger_id, *state.lost_ledgers))}
        self._others = others

    def of(self, address: _Address, run: str | None) -> int:
        """The claim: `verdicts.STANDING`, `KEPT` …"""
        mine = self._of_run.get(run) if run is not None else None
        claim = mine.at(address) if mine is not None else None
        if claim is not None:
            return claim
        parts = parse_run_id(run) if run is not None else None
        mark = parts.mark if parts is not None else None
        if run not in self._known and mark in self._mine:
            older = self._older.at(address)
            if older is not None:
                return older
        return NOT_COMPARED if mark in self._others else FOREIGN


# --- rows as addresses and digests


class _Budget:
    """The number of bytes of rows that this process may still compare."""

    def __init__(self) -> None:
        self._left = MOST_ROW_BYTES

    def spent_on(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches, with their bytes subtracted from the budget. Raises TooLarge."""
        for batch in batches:
            self._left -= batch.nbytes
            if self._left < 0:
                raise TooLarge
            yield batch


def _addresses(batch: pa.RecordBatch, address: AddressColumns) -> Iterator[_Address]:
    return zip(*(batch.column(name).to_pylist() for name in address), strict=True)


def _digests(batch: pa.RecordBatch, columns: Sequence[str]) -> list[bytes]:
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


def _late(batch: pa.RecordBatch) -> list[tuple[bool | None, int | None]]:
    """Late mark and timestamp (µs) of each row."""
    micros = batch.column("timestamp").cast(pa.int64())
    return list(zip(batch.column(LATE_COLUMN).to_pylist(), micros.to_pylist(), strict=True))


def _is_marked_wrong(marked: tuple[bool | None, int | None], due: int | None) -> bool:
    late, micros = marked
    return late != (None if due is None or micros is None else micros // 1000 < due)
