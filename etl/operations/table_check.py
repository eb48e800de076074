"""Compare one table with Kafka and report the findings: without a JVM if the table is small, else in Spark.

Both ways read the same records (`expected_rows`) and apply the same rules to each address (`verdicts`):

    driver_comparison   a small table that delta-rs reads: takes less time than Spark needs to plan its query
    spark_comparison    all other tables, or if Spark was requested
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, get_args

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.etl.executors.port import Executor
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.driver_comparison import MOST_FILE_BYTES, MOST_ROWS, DriverComparison, TooLarge
from kseg.etl.operations.expected_rows import ExpectedRows
from kseg.etl.operations.landings import TableLandings, miscounted
from kseg.etl.operations.verdicts import (
    ABSENT,
    MAX_FINDINGS,
    TEXTS,
    Compared,
    Finding,
    Found,
    FoundAt,
    Group,
    Kind,
)
from kseg.etl.rows.names import KSEG_ADDRESS, LATE_COLUMN, OWN_ADDRESS, RUN_COLUMN, AddressColumns
from kseg.etl.run.context import JobContext
from kseg.etl.run.engine_choice import small_executor

COUNTED_HERE: Final = 1_000_000
"""Rows by run of tables up to this size are counted in this process."""


class Comparison(Protocol):
    """One way to compare a table. `DriverComparison` and `SparkComparison` document the methods."""

    expected: ExpectedRows

    def groups(self) -> list[Group]: ...
    def with_record(self, topics: Collection[str]) -> list[Group]: ...
    def late_marks(self) -> tuple[int, Sequence[FoundAt]]: ...
    def rows_by_run(self) -> Mapping[str | None, int]: ...


@dataclass(slots=True)
class TableCheck:
    """The comparison of one table.

    offsets: those that are compared with Kafka. others: marks (prefixes of the run ids) of other jobs in the table.
    absent: addresses at which no row is due, though Kafka has a record. reference: decode a sample with the reference
    decoders (plain Python). in_spark: use Spark, whatever the table's size. by_address: the number of compared rows of
    which only the address was compared.
    """

    context: JobContext
    state: JobState
    landed: TableLandings
    offsets: Mapping[TopicPartition, OffsetSet]
    others: frozenset[str] = frozenset()
    absent: Mapping[TopicPartition, OffsetSet] = field(default_factory=dict)
    reference: bool = False
    in_spark: bool = False
    compared_rows: int = 0
    by_address: int = 0
    sampled: int = 0

    @property
    def table(self) -> str:
        return self.landed.table

    def counts(self) -> Found:
        """Compare the table's rows by run with the counts that the ledger has of each run."""
        counted = self._rows_by_run()
        self.compared_rows = sum(rows for run, rows in counted.items() if run in self.state.runs)
        return self._miscounted(counted, Found(), exact=True)

    def rows(self, compared: Compared) -> Found:
        """Compare addresses on both sides, and with `rows` and `decoded` the rows as well."""
        access = self.context.targets.access(self.table)
        schema = access.schema() if access is not None else None
        address = self._address(schema.names if schema is not None else ())
        partition_by = access.partition_columns() if access is not None else ()
        expected = self._expected(compared)
        if schema is not None and (executor := self._executor()) is not None:
            with suppress(TooLarge):
                here = DriverComparison(executor, expected, self.others, schema, address, partition_by)
                return self._found(compared, here)
        # Imported only if Spark compares: the import of pyspark takes a third of the time of a small comparison.
        from kseg.etl.operations.spark_comparison import SparkComparison, shuffles_for

        with shuffles_for(self.context, self._offsets):
            return self._found(compared, SparkComparison(expected, self.others, address, partition_by))

    def _found(self, compared: Compared, comparison: Comparison) -> Found:
        found = Found()
        groups = comparison.groups()
        self.sampled = comparison.expected.sampled
        there = [group for group in groups if group.why != ABSENT]
        self.compared_rows = sum(group.rows for group in there)
        self.by_address = sum(group.rows for group in there if group.exact is False)
        groups = self._without_compacted(groups, comparison, found)
        for kind in get_args(Kind):
            wrong = [group for group in groups if group.kind == kind]
            found.total += sum(group.rows for group in wrong)
            found.findings += self._findings_of(kind, wrong)
        if compared == "rows":
            wrong_marks, first = comparison.late_marks()
            found.total += wrong_marks
            text = f"{LATE_COLUMN} does not show whether the record came after its interval"
            found.findings += (Finding("mismatch", self.table, at.topic, at.partition, at.offset, text) for at in first)
        # Of rows whose offsets cannot be read again, and of rows of abandoned runs, only the number is compared.
        return found if found.total else self._miscounted(comparison.rows_by_run(), found, exact=False)

    @property
    def _offsets(self) -> int:
        return sum(of_tp.length for of_tp in self.offsets.values())

    def _executor(self) -> Executor | None:
        """Reads the records of a small table; None if Spark compares. With Spark Connect the server does: perhaps only
        the server can reach the data."""
        if self.in_spark or self.context.spark.remote or self._offsets > MOST_ROWS:
            return None
        if not self.context.targets.is_small(self.table, rows=MOST_ROWS, file_bytes=MOST_FILE_BYTES):
            return None
        return small_executor(self.context, {tp: of_tp.length for tp, of_tp in self.offsets.items() if of_tp})

    def _expected(self, compared: Compared) -> ExpectedRows:
        return ExpectedRows(
            self.context,
            self.state,
            self.landed,
            self.offsets,
            self.absent,
            whole=compared in ("rows", "decoded"),
            decoded=compared == "decoded",
            reference=self.reference,
        )

    def _without_compacted(self, groups: list[Group], comparison: Comparison, found: Found) -> list[Group]:
        """The groups without rows whose records compaction has removed since they landed."""
        strangers = {group.topic for group in groups if group.topic is not None}
        compacted = self.context.clients.logs.compacted(strangers) if strangers else frozenset()
        kept = [group for group in groups if group.topic not in compacted]
        if compacted and self.landed.routes:
            # A row remains a finding if Kafka still has its record, and the record is routed to another table.
            kept += comparison.with_record(compacted)
        if cleaned := sum(group.rows for group in groups) - sum(group.rows for group in kept):
            found.notes.append(f"{cleaned} rows not compared: compaction has removed their records since")
        return kept

    def _findings_of(self, kind: Kind, groups: list[Group]) -> Iterator[Finding]:
        """The first findings of one kind, ordered by address."""
        first = sorted(((at, group.why) for group in groups for at in group.first), key=lambda one: one[0][:3])
        for at, why in first[:MAX_FINDINGS]:
            reason = why or ("route" if kind == "stranger" and self.landed.routes else "")
            text = TEXTS[kind, reason].format(run=at.foreign)
            yield Finding(kind, self.table, at.topic, at.partition, at.offset, text)

    # --- rows by run

    def _rows_by_run(self) -> Mapping[str | None, int]:
        targets = self.context.targets
        access = targets.access(self.table)
        now = access.state() if access is not None else None
        if self.in_spark or now is None or now.rows is None or now.rows > COUNTED_HERE:
            from kseg.etl.operations.spark_comparison import rows_by_run, shuffles_for

            with shuffles_for(self.context, self._offsets):
                return rows_by_run(targets.frame(self.table, [RUN_COLUMN]))
        counted: Counter[str | None] = Counter()
        for batch in targets.scan(self.table, [RUN_COLUMN]):
            counted.update(batch.column(0).to_pylist())
        return counted

    def _miscounted(self, counted: Mapping[str | None, int], found: Found, *, exact: bool) -> Found:
        faults, notes = miscounted(self.landed, self.state, counted, job=self.context.job, exact=exact)
        found.total += len(faults)
        found.notes += notes
        parsed = ((parse_run_id(run or ""), rows) for run, rows in counted.items())
        if of_others := sum(rows for parts, rows in parsed if parts is not None and parts.mark in self.others):
            found.notes.append(f"{of_others} rows not compared: other jobs have landed them")
        for fault in faults[:MAX_FINDINGS]:
            runs = f"run {fault.runs[0]}" if len(fault.runs) == 1 else f"runs {', '.join(fault.runs)} together"
            text = f"by the ledger {fault.due} rows of {runs} should be in the table, and {fault.there} are"
            found.findings.append(Finding("count", self.table, None, None, None, text))
        return found

    # --- inputs

    def _address(self, columns: Sequence[str]) -> AddressColumns:
        for address in (KSEG_ADDRESS, OWN_ADDRESS):
            if set(address) <= set(columns):
                return address
        raise ConfigurationError.of("sink", f"{self.table} has no address columns", "set sink.addresses: false")
