"""Compare one table with Kafka, in Spark: a full outer join of addresses, after each row was held against the ledger.

    rows of the table ─► in a compared range? ─► which claim does its run have here? ─► by address ─┐
                                                                                                    ├─► verdicts
    rows of Kafka ──────────────────────────────────────────────────────────────► by address ───────┘

What the ledger knows comes as two small tables, ranges and claims, which rows are joined with by partition (and run):
a predicate with a term for each range would be too deep for Spark's optimizer at thousands of partitions. Files are
passed over by their statistics, with a predicate of a few terms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import TYPE_CHECKING, Final, Literal, get_args

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import MARKED_RUN_ID, mark_of, parse_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.expected_rows import ExpectedRows
from kseg.etl.operations.fingerprints import fingerprints, is_within, side_table
from kseg.etl.operations.landings import Status, TableLandings, miscounted
from kseg.etl.operations.pruning import pruning
from kseg.etl.run.context import JobContext
from kseg.etl.tables.parquet.schema import KSEG_ADDRESS, LATE_COLUMN, OWN_ADDRESS, RUN_COLUMN, AddressColumns
from kseg.etl.tables.removal import OfAddresses

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

MAX_FINDINGS: Final = 100

Kind = Literal["gap", "duplicate", "mismatch", "stranger", "count", "file"]
Compared = Literal["rows", "decoded", "addresses", "counts"]

_ADDRESS: Final = ("topic", "partition", "offset")

_STANDING, _KEPT, _REPLACED, _OLDER, _FOREIGN, _NOT_COMPARED = range(6)
"""What the ledger says of a row: its run landed it; the same, and a later run could not read it again; a later run has
replaced it; it stands and may be of a run that a summary has dropped; no run landed it; it is of an earlier generation
of the partition, or of another job."""

_CLAIMS: Final[dict[Status, int]] = {
    "standing": _STANDING,
    "kept": _KEPT,
    "replaced": _REPLACED,
    "superseded": _NOT_COMPARED,
}

_LACKS_RECORD: Final = "kind = 'stranger' AND why = ''"
"""Of a verdict, in SQL: no record that is due in the table has the row's address."""

_TEXTS: Final[dict[tuple[Kind, str], str]] = {
    ("gap", ""): "the record is in Kafka and not in the table",
    ("gap", "copies"): "several runs have landed the record, and the row of one is not in the table",
    ("stranger", ""): "the row is in the table, and the record is not in Kafka",
    ("stranger", "route"): "the row is in the table, and no record that is routed there has its address",
    ("stranger", "run"): "the row is of run {run}, which by the ledger has not landed this offset",
    ("duplicate", ""): "the row is in the table more than once for one run",
    ("duplicate", "replaced"): "the row of an earlier run is still there, and that of the run which replaced it too",
    ("duplicate", "older"): "the row is in the table more than once; its runs are older than the ledger's summary",
    ("mismatch", ""): "the row differs from the record in Kafka",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. offset is None where it is about a whole table.

    gap: in Kafka, not in the table. duplicate: more than once in the table for one run, or of a run that was replaced.
    mismatch: other contents than in Kafka. stranger: in the table, but Kafka has no readable record at that offset, or
    no run of this job has landed it. count: rows and ledger differ. file: a data file of the table is not in the store.
    """

    kind: Kind
    table: str
    topic: str | None
    partition: int | None
    offset: int | None
    message: str


@dataclass(slots=True)
class Found:
    """What one table's comparison has found. findings: the first hundred of each kind."""

    total: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Group:
    """Addresses of one verdict. kind: None where nothing is wrong. exact: whether rows were compared, not addresses
    alone. topic: of a row without a record; else None. first: the first of what is wrong."""

    kind: Kind | None
    why: str
    exact: bool | None
    topic: str | None
    rows: int
    first: Sequence[Row]


@dataclass(slots=True)
class TableCheck:
    """The comparison of one table.

    offsets: those that are compared with Kafka. others: what the run ids of other jobs in the table begin with.
    absent: addresses at which no row is due, though Kafka has a record. reference: a sample of what is decoded again is
    decoded in plain Python. by_address: of the compared rows, those of which the addresses alone were compared.
    """

    context: JobContext
    state: JobState
    landed: TableLandings
    offsets: Mapping[TopicPartition, OffsetSet]
    others: frozenset[str] = frozenset()
    absent: Mapping[TopicPartition, OffsetSet] = field(default_factory=dict)
    reference: bool = False
    compared_rows: int = 0
    by_address: int = 0
    sampled: int = 0

    @property
    def table(self) -> str:
        return self.landed.table

    def counts(self) -> Found:
        """Compare the table's rows by run with the counts that the ledger has of each run."""
        counted = self._rows_by_run(self.context.targets.frame(self.table, [RUN_COLUMN]))
        self.compared_rows = sum(rows for run, rows in counted.items() if run in self.state.runs)
        return self._miscounted(counted, Found(), exact=True)

    def rows(self, compared: Compared) -> Found:
        """Compare addresses on both sides, and with `rows` and `decoded` the rows as well."""
        found = Found()
        targets = self.context.targets
        access = targets.access(self.table)
        address = self._address(access.column_names() if access is not None else ())
        # Both now: the comparison may take long, and what lands meanwhile is not in the state that was read.
        table = targets.frame(self.table, within=OfAddresses(address, self.offsets))
        runs = targets.frame(self.table, [RUN_COLUMN])
        expected = self._expected(compared)
        columns = expected.columns(table)
        left = expected.frame(table, columns, access.partition_columns() if access is not None else ())
        actual = self._in_ranges(table, address)
        joined = left.join(self._by_address(actual, address, columns, expected), list(_ADDRESS), "full_outer")
        judged = self._with_copies(joined).select(*_ADDRESS, self._verdict().alias("verdict"), "foreign", "exact")
        with expected.typed_errors():
            judged = judged.select(*_ADDRESS, "foreign", "exact", "verdict.kind", "verdict.why")
            groups = _groups(judged)
        self.compared_rows = sum(group.rows for group in groups)
        self.by_address = sum(group.rows for group in groups if group.exact is False)
        self.sampled = expected.sampled
        groups = self._without_compacted(groups, judged, expected, found)
        for kind in get_args(Kind):
            wrong = [group for group in groups if group.kind == kind]
            found.total += sum(group.rows for group in wrong)
            found.findings += self._findings_of(kind, wrong)
        if compared == "rows" and LATE_COLUMN in table.columns:
            self._late_marks(actual, address, found)
        # Rows of offsets that cannot be read again, and of abandoned runs, by their number alone.
        return found if found.total else self._miscounted(self._rows_by_run(runs), found, exact=False)

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

    # --- rows of the table, as the ledger sees them

    def _in_ranges(self, table: DataFrame, address: AddressColumns) -> DataFrame:
        """The rows of the compared ranges: the table may also have rows of other jobs, and of runs that go on."""
        ranges = ((tp.topic, tp.partition, *interval) for tp, offsets in self.offsets.items() for interval in offsets)
        known = side_table(
            self.context, ranges, ("_kseg_in_topic", "_kseg_in_partition", "_kseg_in_start", "_kseg_in_end")
        )
        condition = is_within(address, "_kseg_in")
        return table.where(pruning(self.offsets, address)).join(known, condition, "left_semi")

    def _by_address(
        self, actual: DataFrame, address: AddressColumns, columns: list[str], expected: ExpectedRows
    ) -> DataFrame:
        """One row an address: how many runs have rows there, and what should not be there."""
        from pyspark.sql import functions as f

        told, kind = self._claimed(actual, address), f.lit(expected.kind_of_others)
        if expected.kinds:
            known = side_table(self.context, expected.kinds.items(), ("_kseg_d_run", "_kseg_d_kind"))
            told = told.join(known, f.col("_kseg_d_run") == f.col(RUN_COLUMN), "left")
            kind = f.coalesce(f.col("_kseg_d_kind").cast("int"), kind)
        rows = fingerprints(told, address, columns, "actual", "_kseg_claim", RUN_COLUMN, kind=kind)
        # One shuffle by address serves both aggregations and the join after them.
        rows = rows.select(
            *_ADDRESS,
            f.xxhash64(RUN_COLUMN).alias("run"),
            f.col("_kseg_claim").alias("claim"),
            "actual",
            f.when(f.col("_kseg_claim") == _FOREIGN, f.coalesce(RUN_COLUMN, f.lit("(none)"))).alias("foreign"),
        ).repartition(*_ADDRESS)
        of_run = rows.groupBy(*_ADDRESS, "run").agg(
            f.count("*").alias("times"),
            f.min("claim").alias("claim"),
            f.max("foreign").alias("foreign"),
            f.min("actual").alias("low"),
            f.max("actual").alias("high"),
        )
        stands = f.col("claim").isin(_STANDING, _KEPT, _OLDER)
        return of_run.groupBy(*_ADDRESS).agg(
            f.max("times").alias("times"),
            f.count_if(stands).alias("standing"),
            f.count_if(f.col("claim") == _OLDER).alias("older"),
            f.count_if(f.col("claim") == _KEPT).alias("kept"),
            f.count_if(f.col("claim") == _REPLACED).alias("replaced"),
            f.max("foreign").alias("foreign"),
            f.collect_set(f.when(stands, f.col("low"))).alias("rows")
            if expected.overlap
            else f.array(f.min(f.when(stands, f.col("low"))), f.max(f.when(stands, f.col("high")))).alias("rows"),
        )

    def _claimed(self, actual: DataFrame, address: AddressColumns) -> DataFrame:
        from pyspark.sql import functions as f

        claims = ((c.topic, c.partition, c.start, c.end, c.run_id, _CLAIMS[c.status]) for c in self.landed.claims())
        names = ("_kseg_c_topic", "_kseg_c_partition", "_kseg_c_start", "_kseg_c_end", "_kseg_c_run", "_kseg_c_claim")
        known = side_table(self.context, claims, names)
        condition = is_within(address, "_kseg_c") & (f.col("_kseg_c_run") == f.col(RUN_COLUMN))
        told = actual.join(known, condition, "left")
        older = [
            (tp.topic, tp.partition, *interval, claim)
            for claim, partitions in (
                (_OLDER, self.landed.older),
                (_REPLACED, self.landed.older_replaced),
                (_NOT_COMPARED, self.landed.older_superseded),
            )
            for tp, offsets in partitions.items()
            for interval in offsets
        ]
        claim = f.col("_kseg_c_claim")
        mark = f.coalesce(f.regexp_extract(RUN_COLUMN, f"^{MARKED_RUN_ID}$", 1), f.lit(""))
        if older:
            at = side_table(
                self.context,
                older,
                ("_kseg_o_topic", "_kseg_o_partition", "_kseg_o_start", "_kseg_o_end", "_kseg_o_claim"),
            )
            told = told.join(at, is_within(address, "_kseg_o"), "left")
            runs = [(run.run_id,) for run in self.state.runs.values() if not run.archived]
            known_runs = side_table(self.context, runs, ("_kseg_k_run",))
            told = told.join(known_runs, f.col("_kseg_k_run") == f.col(RUN_COLUMN), "left")
            ledgers = (self.state.ledger_id, *self.state.lost_ledgers)
            mine = [mark_of(ledger, self.state.job) for ledger in ledgers]
            may_be_older = f.col("_kseg_k_run").isNull() & mark.isin("", *mine)
            claim = f.coalesce(claim, f.when(may_be_older, f.col("_kseg_o_claim")))
        of_others = f.when(mark.isin(*self.others), f.lit(_NOT_COMPARED))
        told = told.withColumn("_kseg_claim", f.coalesce(claim, of_others, f.lit(_FOREIGN)))
        return told.where(f.col("_kseg_claim") != _NOT_COMPARED)

    def _with_copies(self, joined: DataFrame) -> DataFrame:
        """With the number of runs whose rows are due: nearly everywhere one."""
        from pyspark.sql import functions as f

        several = [(c.topic, c.partition, c.start, c.end, c.copies) for c in self.landed.copies()]
        if not several:
            return joined.withColumn("copies", f.lit(1))
        known = side_table(
            self.context,
            several,
            ("_kseg_n_topic", "_kseg_n_partition", "_kseg_n_start", "_kseg_n_end", "_kseg_n_copies"),
        )
        joined = joined.join(known, is_within(OWN_ADDRESS, "_kseg_n"), "left")
        return joined.withColumn("copies", f.coalesce("_kseg_n_copies", f.lit(1)))

    def _verdict(self) -> Column:
        """Kind and reason of an address; kind null: nothing is wrong."""
        from pyspark.sql import functions as f

        def told(kind: Kind | None, why: str = "") -> Column:
            return f.struct(f.lit(kind).cast("string").alias("kind"), f.lit(why).alias("why"))

        in_kafka, standing = f.col("expected").isNotNull(), f.coalesce("standing", f.lit(0))
        differs = f.size(f.array_except("rows", "expected")) > 0
        verdict = (
            f.when(f.col("foreign").isNotNull(), told("stranger", "run"))
            .when(f.col("times") > 1, told("duplicate"))
            .when(~in_kafka & (standing > f.col("kept")), told("stranger"))
            .when(~in_kafka, told(None))
            .when(standing == 0, told("gap"))
            .when(standing < f.col("copies"), told("gap", "copies"))
            .when(f.col("replaced") > 0, told("duplicate", "replaced"))
        )
        if self.landed.older_once:
            verdict = verdict.when(f.col("older") > 1, told("duplicate", "older"))
        return verdict.when(differs, told("mismatch")).otherwise(told(None))

    def _without_compacted(
        self, groups: list[_Group], judged: DataFrame, expected: ExpectedRows, found: Found
    ) -> list[_Group]:
        """Rows whose records compaction has removed since they landed are no strangers."""
        strangers = {group.topic for group in groups if group.topic is not None}
        compacted = self.context.clients.logs.compacted(strangers) if strangers else frozenset()
        kept = [group for group in groups if group.topic not in compacted]
        if compacted and self.landed.routes:
            # A record that has the route of another table is there: it was left out of those that are due here.
            there = judged.where(_LACKS_RECORD).where(judged["topic"].isin(*compacted))
            with expected.typed_errors():
                kept += _groups(there.join(expected.addresses(), list(_ADDRESS), "left_semi"))
        if cleaned := sum(group.rows for group in groups) - sum(group.rows for group in kept):
            found.notes.append(f"{cleaned} rows not compared: compaction has removed their records since")
        return kept

    def _findings_of(self, kind: Kind, groups: list[_Group]) -> Iterator[Finding]:
        """The first of one kind, in the order of their addresses."""
        rows = [
            (row["topic"], row["partition"], row["offset"], row["foreign"], group.why)
            for group in groups
            for row in group.first
        ]
        for topic, partition, offset, foreign, why in sorted(rows, key=itemgetter(0, 1, 2))[:MAX_FINDINGS]:
            reason = why or ("route" if kind == "stranger" and self.landed.routes else "")
            yield Finding(kind, self.table, topic, partition, offset, _TEXTS[kind, reason].format(run=foreign))

    def _late_marks(self, actual: DataFrame, address: AddressColumns, found: Found) -> None:
        """`_kseg_late` is not in Kafka: it follows from a row's time and the interval of the run that landed it."""
        from pyspark.sql import functions as f

        starts = [
            (run.run_id, run.plan.late_before_ms)
            for run in self.state.runs.values()
            if run.plan.late_before_ms is not None
        ]
        due = self.context.spark.session().createDataFrame(starts, f"{RUN_COLUMN} string, due long")
        late = f.when(f.col("due").isNotNull(), f.unix_millis("timestamp") < f.col("due"))
        rows = actual.join(f.broadcast(due), RUN_COLUMN, "left")
        wrong = rows.where(~f.col(LATE_COLUMN).eqNullSafe(late)).select(f.struct(*address).alias("address"))
        [told] = wrong.agg(
            f.count("*").alias("rows"), f.min_by("address", "address", MAX_FINDINGS).alias("first")
        ).collect()
        found.total += told["rows"]
        text = f"{LATE_COLUMN} does not show whether the record came after its interval"
        found.findings += (Finding("mismatch", self.table, row[0], row[1], row[2], text) for row in told["first"] or ())

    # --- rows by run

    def _rows_by_run(self, table: DataFrame) -> dict[str, int]:
        from pyspark.sql import functions as f

        return {row[0]: row[1] for row in table.groupBy(RUN_COLUMN).agg(f.count("*")).collect()}

    def _miscounted(self, counted: Mapping[str, int], found: Found, *, exact: bool) -> Found:
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


def _groups(judged: DataFrame) -> list[_Group]:
    """Numbers and samples in one query: the comparison is neither planned twice nor kept."""
    from pyspark.sql import functions as f

    first = f.expr(
        f"min_by(struct({', '.join(_ADDRESS)}, foreign), struct({', '.join(_ADDRESS)}), {MAX_FINDINGS}) "
        "FILTER (WHERE kind IS NOT NULL)"
    )
    topic = f.when(f.expr(_LACKS_RECORD), f.col("topic"))
    rows = judged.groupBy("kind", "why", "exact", topic.alias("of")).agg(
        f.count("*").alias("rows"), first.alias("first")
    )
    return [
        _Group(row["kind"], row["why"], row["exact"], row["of"], row["rows"], row["first"] or ())
        for row in rows.collect()
    ]
