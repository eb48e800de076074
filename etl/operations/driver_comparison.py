"""Compare one small table with Kafka, without a JVM, by the same rules as `spark_comparison`.

    rows of the table (delta-rs) ─► in a compared range? ─► which claim has its run here? ─► by address ─┐
    rows of Kafka (packs of an executor) ─► digests ──────────────────────────────────────► by address ─┴─► verdicts

For 100,000 rows, this takes less time than Spark needs to start and to plan its query. Of each row, only a digest
reaches this process's memory, by address.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, overload

import numpy as np
import pyarrow as pa

from kseg.etl.executors.port import Executor, Read
from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.expected_rows import ADDRESS_ALONE, ExpectedRows, Part
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
from kseg.etl.rows.names import LATE_COLUMN, OWN_ADDRESS, RUN_COLUMN, AddressColumns
from kseg.etl.rows.types import delta_type
from kseg.etl.tasks.digests import DIGEST, DigestWrite, RowAddress, addresses, digests

MOST_ROWS: Final = 100_000
"""Spark compares tables with more rows, or with more offsets to read again."""

MOST_FILE_BYTES: Final = 64 << 20
MOST_ROW_BYTES: Final = 256 << 20
"""Limit of the Arrow data of the table's rows. Only one batch of it is in memory at a time."""

_STANDS: Final = (STANDING, KEPT, OLDER)

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

    executor: reads the records. others: marks (prefixes of the run ids) of other jobs in the table. schema: the
    table's. address: its address columns.
    """

    executor: Executor
    expected: ExpectedRows
    others: frozenset[str]
    schema: pa.Schema
    address: AddressColumns
    partition_by: Sequence[str] = ()
    _by_run: Counter[str | None] = field(default_factory=Counter)
    _late: list[FoundAt] = field(default_factory=list)
    _lacking: dict[RowAddress, FoundAt] = field(default_factory=dict)
    _exact: dict[RowAddress, bool | None] = field(default_factory=dict)

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
        records = self._records(self.expected.of_all_records(), [])
        there = {address for address, _ in records if address in self._lacking and address[0] in topics}
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

    def _rows_of_table(self, columns: list[str]) -> dict[RowAddress, list[_Row]]:
        expected = self.expected
        claims = RowClaims(expected.landed, expected.state, self.others)
        marks = LATE_COLUMN in self.schema.names and not expected.decoded and expected.whole
        late_before = {run.run_id: run.plan.late_before_ms for run in expected.state.runs.values()}
        wanted = [*self.address, RUN_COLUMN, *columns, *((LATE_COLUMN, "timestamp") if marks else ())]
        access = expected.context.targets.access(expected.landed.table)
        assert access is not None
        rows: dict[RowAddress, list[_Row]] = {}
        for batch in within_budget(access.scan(list(dict.fromkeys(wanted)))):
            runs = batch.column(RUN_COLUMN).to_pylist()
            self._by_run.update(runs)
            made = digests(batch, columns)
            late = _late(batch) if marks else None
            for at, (address, run) in enumerate(zip(addresses(batch, self.address), runs, strict=True)):
                if address not in expected:
                    continue
                if late is not None and _is_marked_wrong(late[at], late_before.get(run)):
                    self._late.append(FoundAt(*address))
                claim = claims.of(address, run)
                if claim != NOT_COMPARED:
                    kind = expected.kinds.get(run, expected.kind_of_others)
                    digest = None if kind == ADDRESS_ALONE else (kind, made[at])
                    rows.setdefault(address, []).append(_Row(run, claim, digest))
        return rows

    def _rows_of_kafka(self, columns: list[str]) -> dict[RowAddress, _Due]:
        due: dict[RowAddress, _Due] = {}
        for part in self.expected.parts:
            exact = part.kind != ADDRESS_ALONE
            for address, digest in self._records(part, columns if exact else []):
                found = due.setdefault(address, _Due([], exact))
                found.digests.append((part.kind, digest) if exact else None)
                found.exact = found.exact and exact
        return due

    def _records(self, part: Part, columns: list[str]) -> Iterator[tuple[RowAddress, bytes]]:
        """Address and digest of each row that the part's records make."""
        cores = self.executor.parallelism
        reading = self.expected.reading(part, self._arrow, columns, self.partition_by, cores=cores)
        write = DigestWrite(part.address, columns, reading.routes, part.offsets if reading.beyond else None)
        origin = self.expected.context.clients.task_origin
        read = Read(reading.tasks, origin, reading.options, write, reading.steps, alike=())
        for batch in (batch for result in self.executor.run(read) for batch in result.outputs):
            yield from zip(addresses(batch, OWN_ADDRESS), batch.column(DIGEST).to_pylist(), strict=True)

    def _arrow(self, columns: list[str]) -> pa.Schema:
        return pa.schema([pa.field(name, delta_type(self.schema.field(name).type)) for name in columns])

    # --- both, by address

    def _judged(self, rows: dict[RowAddress, list[_Row]], due: dict[RowAddress, _Due]) -> list[Group]:
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
    def at(self, address: RowAddress) -> int | None: ...
    @overload
    def at(self, address: RowAddress, default: int) -> int: ...
    def at(self, address: RowAddress, default: int | None = None) -> int | None:
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

    def of(self, address: RowAddress, run: str | None) -> int:
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


# --- rows of the table


def within_budget(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches, up to `MOST_ROW_BYTES`. Raises TooLarge."""
    left = MOST_ROW_BYTES
    for batch in batches:
        left -= batch.nbytes
        if left < 0:
            raise TooLarge
        yield batch


def _late(batch: pa.RecordBatch) -> list[tuple[bool | None, int | None]]:
    """Late mark and timestamp (µs) of each row."""
    micros = batch.column("timestamp").cast(pa.int64())
    return list(zip(batch.column(LATE_COLUMN).to_pylist(), micros.to_pylist(), strict=True))


def _is_marked_wrong(marked: tuple[bool | None, int | None], due: int | None) -> bool:
    late, micros = marked
    return late != (None if due is None or micros is None else micros // 1000 < due)
