"""Compare one table with Kafka, in Spark: a full outer join by address, after each row was matched with the ledger.

    rows of the table ─► in a compared range? ─► which claim does its run have here? ─► by address ─┐
                                                                                                    ├─► verdicts
    rows of Kafka ──────────────────────────────────────────────────────────────► by address ───────┘

The ledger's ranges and claims are two small DataFrames, which rows are joined with by partition (and run): with
thousands of partitions, a predicate with a term for each range would be too deep for Spark's optimizer. Up to a hundred
ranges are such a predicate, which needs no join. A predicate of a few terms skips files by their statistics.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import MARKED_RUN_ID, mark_of
from kseg.etl.operations.expected_rows import ADDRESS_ALONE, ExpectedRows, Part
from kseg.etl.operations.pruning import MAX_PREDICATE_TERMS, pruning
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
    older_claims,
    rules,
)
from kseg.etl.rows.names import LATE_COLUMN, OWN_ADDRESS, ROUTE_COLUMN, RUN_COLUMN, AddressColumns
from kseg.etl.run.context import JobContext
from kseg.etl.spark.dataframe import rows
from kseg.etl.tables.removal import OfAddresses
from kseg.etl.tables.spark_session import parallelism
from kseg.etl.tasks.range_results import NoAccumulator, RangeResults

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

BROADCAST_ROWS: Final = 200_000
"""Ranges and claims up to this number are broadcast; with more of them, Spark chooses the join strategy."""

_ADDRESS: Final = ("topic", "partition", "offset")
_RANGE: Final = ("topic", "partition", "start", "end")

_SHUFFLE_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_ROWS_IN_A_PARTITION: Final = 250_000  # an address and a fingerprint each: some megabytes
_MOST_PARTITIONS: Final = 5_000

_LACKS_RECORD: Final = "kind = 'stranger' AND why = ''"
"""`verdicts.lacks_record`, in SQL."""


class SparkComparison:
    """The comparison of one table of any size.

    others: marks (prefixes of the run ids) of other jobs in the table. address: the table's address columns.
    """

    def __init__(
        self,
        expected: ExpectedRows,
        others: frozenset[str],
        address: AddressColumns,
        partition_by: Sequence[str] = (),
    ) -> None:
        self.expected, self.others, self.address, self.partition_by = expected, others, address, partition_by
        self.context, self.state, self.landed = expected.context, expected.state, expected.landed
        # Both frames now: the comparison may take long, and the state does not have rows that land meanwhile.
        targets = self.context.targets
        self._table = targets.frame(self.landed.table, within=OfAddresses(address, expected.offsets))
        self._runs = targets.frame(self.landed.table, [RUN_COLUMN])
        self._results: list[RangeResults] = []

    def groups(self) -> list[Group]:
        """Addresses by verdict: counts and samples in one query, so the comparison is neither run twice nor cached.

        Raises:
            KafkaError, KsegError: as tasks raised them.
        """
        columns = self.expected.columns(self._table.columns)
        left = self._due(columns)
        joined = left.join(self._by_address(columns), list(_ADDRESS), "full_outer")
        judged = self._with_copies(joined).select(*_ADDRESS, self._verdict().alias("verdict"), "foreign", "exact")
        self._judged = judged.select(*_ADDRESS, "foreign", "exact", "verdict.kind", "verdict.why")
        with self._typed_errors():
            return _groups(self._judged)

    def with_record(self, topics: Collection[str]) -> list[Group]:
        """The rows whose record is not due in the table although these topics have a record at their address."""
        lacking = self._judged.where(_LACKS_RECORD).where(self._judged["topic"].isin(*topics))
        records = self._read(self.expected.of_all_records(), []).select(*OWN_ADDRESS)
        with self._typed_errors():
            return _groups(lacking.join(records, list(_ADDRESS), "left_semi"))

    def late_marks(self) -> tuple[int, Sequence[FoundAt]]:
        """The number of rows whose late mark contradicts their timestamp and their run's interval; the first ones."""
        from pyspark.sql import functions as f

        if LATE_COLUMN not in self._table.columns:
            return 0, ()
        starts = [
            (run.run_id, run.plan.late_before_ms)
            for run in self.state.runs.values()
            if run.plan.late_before_ms is not None
        ]
        due = self.context.spark.session().createDataFrame(starts, f"{RUN_COLUMN} string, due long")
        late = f.when(f.col("due").isNotNull(), f.unix_millis("timestamp") < f.col("due"))
        rows = self._in_ranges().join(f.broadcast(due), RUN_COLUMN, "left")
        wrong = rows.where(~f.col(LATE_COLUMN).eqNullSafe(late)).select(f.struct(*self.address).alias("address"))
        [told] = wrong.agg(
            f.count("*").alias("rows"), f.min_by("address", "address", MAX_FINDINGS).alias("first")
        ).collect()
        return told["rows"], [FoundAt(*row) for row in told["first"] or ()]

    def rows_by_run(self) -> Mapping[str | None, int]:
        """The number of rows by run id, in the whole table."""
        return rows_by_run(self._runs)

    # --- rows that are due

    def _due(self, columns: list[str]) -> DataFrame:
        """One row for each address: the address, `expected` (an array of fingerprints) and `exact` (whether these are
        of whole rows)."""
        from pyspark.sql import functions as f

        frames = []
        for part in self.expected.parts:
            compared = columns if part.kind != ADDRESS_ALONE else []
            made = _fingerprints(self._read(part, columns), part.address, compared, "expected", kind=part.kind)
            frames.append(made.withColumn("exact", f.lit(part.kind != ADDRESS_ALONE)))
        if not frames:
            none = self._side_table("", [], *OWN_ADDRESS).toDF(*OWN_ADDRESS)
            made = _fingerprints(none, OWN_ADDRESS, [], "expected", kind=ADDRESS_ALONE)
            frames = [made.withColumn("exact", f.lit(False))]
        frame = reduce(lambda one, other: one.unionByName(other), frames)
        if not self.expected.overlap:
            return frame.withColumn("expected", f.array("expected"))
        by_address = frame.groupBy(*OWN_ADDRESS)
        return by_address.agg(f.collect_set("expected").alias("expected"), f.min("exact").alias("exact"))

    def _read(self, part: Part, columns: list[str]) -> DataFrame:
        from pyspark.sql import functions as f

        context = self.context
        spark = context.spark.session(delta=True)
        reading = self.expected.reading(part, self._arrow, columns, self.partition_by, cores=self._cores)
        gathered = NoAccumulator() if context.spark.remote else None
        origin = context.clients.task_origin
        frame, results = rows(spark, reading.tasks, origin, reading.options, reading.steps, gathered=gathered)
        self._results.append(results)
        if reading.routes:
            frame = frame.where(f.col(ROUTE_COLUMN).isin(*reading.routes))
        if reading.beyond:
            wanted = self._side_table("a", _ranges(part.offsets), *_RANGE)
            frame = frame.join(wanted, _is_within(part.address, "a"), "left_semi")
        return frame

    @cached_property
    def _cores(self) -> int:
        return parallelism(self.context.spark.session(delta=True))

    def _arrow(self, columns: list[str]) -> pa.Schema:
        from pyspark.sql.pandas.types import to_arrow_schema

        made = to_arrow_schema(self._table.select([f"`{name}`" for name in columns]).schema, timezone="UTC")
        return pa.schema([pa.field(field.name, field.type) for field in made])

    @contextmanager
    def _typed_errors(self) -> Iterator[None]:
        """Around an action: errors of its tasks are raised with their original types."""
        with ExitStack() as all_of_them:
            for results in self._results:
                all_of_them.enter_context(results.typed_errors())
            yield

    # --- rows of the table, as the ledger sees them

    def _in_ranges(self) -> DataFrame:
        """The rows in the compared ranges: the table may also have rows of other jobs, and of unfinished runs."""
        offsets = self.expected.offsets
        pruned = self._table.where(pruning(offsets, self.address))
        if sum(len(tuple(of_tp)) for of_tp in offsets.values()) <= MAX_PREDICATE_TERMS:
            return pruned  # by a term for each range
        known = self._side_table("in", _ranges(offsets), *_RANGE)
        return pruned.join(known, _is_within(self.address, "in"), "left_semi")

    def _by_address(self, columns: list[str]) -> DataFrame:
        """One row for each address: how many runs have rows there, by claim, and the fingerprints of standing rows."""
        from pyspark.sql import functions as f

        expected, address = self.expected, self.address
        told, kind = self._claimed(self._in_ranges()), f.lit(expected.kind_of_others)
        if expected.kinds:
            known = self._side_table("d", expected.kinds.items(), "run", "kind")
            told = told.join(known, f.col("_kseg_d_run") == f.col(RUN_COLUMN), "left")
            kind = f.coalesce(f.col("_kseg_d_kind").cast("int"), kind)
        rows = _fingerprints(told, address, columns, "actual", "_kseg_claim", RUN_COLUMN, kind=kind)
        # One shuffle by address serves both aggregations and the join after them.
        rows = rows.select(
            *_ADDRESS,
            f.xxhash64(RUN_COLUMN).alias("run"),
            f.col("_kseg_claim").alias("claim"),
            "actual",
            f.when(f.col("_kseg_claim") == FOREIGN, f.coalesce(RUN_COLUMN, f.lit(NO_RUN))).alias("foreign"),
        ).repartition(*_ADDRESS)
        of_run = rows.groupBy(*_ADDRESS, "run").agg(
            f.count("*").alias("times"),
            f.min("claim").alias("claim"),
            f.max("foreign").alias("foreign"),
            f.min("actual").alias("low"),
            f.max("actual").alias("high"),
        )
        stands = f.col("claim").isin(STANDING, KEPT, OLDER)
        return of_run.groupBy(*_ADDRESS).agg(
            f.max("times").alias("times"),
            f.count_if(stands).alias("standing"),
            f.count_if(f.col("claim") == OLDER).alias("older"),
            f.count_if(f.col("claim") == KEPT).alias("kept"),
            f.count_if(f.col("claim") == REPLACED).alias("replaced"),
            f.max("foreign").alias("foreign"),
            f.collect_set(f.when(stands, f.col("low"))).alias("rows")
            if expected.overlap
            else f.array(f.min(f.when(stands, f.col("low"))), f.max(f.when(stands, f.col("high")))).alias("rows"),
        )

    def _claimed(self, actual: DataFrame) -> DataFrame:
        from pyspark.sql import functions as f

        address = self.address
        claims = ((c.topic, c.partition, c.start, c.end, c.run_id, CLAIMS[c.status]) for c in self.landed.claims())
        known = self._side_table("c", claims, *_RANGE, "run", "claim")
        condition = _is_within(address, "c") & (f.col("_kseg_c_run") == f.col(RUN_COLUMN))
        told = actual.join(known, condition, "left")
        older = older_claims(self.landed)
        claim = f.col("_kseg_c_claim")
        mark = f.coalesce(f.regexp_extract(RUN_COLUMN, f"^{MARKED_RUN_ID}$", 1), f.lit(""))
        if older:
            told = told.join(self._side_table("o", older, *_RANGE, "claim"), _is_within(address, "o"), "left")
            runs = [(run.run_id,) for run in self.state.runs.values() if not run.archived]
            known_runs = self._side_table("k", runs, "run")
            told = told.join(known_runs, f.col("_kseg_k_run") == f.col(RUN_COLUMN), "left")
            ledgers = (self.state.ledger_id, *self.state.lost_ledgers)
            mine = [mark_of(ledger, self.state.job) for ledger in ledgers]
            may_be_older = f.col("_kseg_k_run").isNull() & mark.isin("", *mine)
            claim = f.coalesce(claim, f.when(may_be_older, f.col("_kseg_o_claim")))
        of_others = f.when(mark.isin(*self.others), f.lit(NOT_COMPARED))
        told = told.withColumn("_kseg_claim", f.coalesce(claim, of_others, f.lit(FOREIGN)))
        return told.where(f.col("_kseg_claim") != NOT_COMPARED)

    def _side_table(self, prefix: str, values: Iterable[Sequence[Any]], *names: str) -> DataFrame:
        """Values of the ledger as a small DataFrame, with columns named `_kseg_<prefix>_<name>`. Topics and runs are
        strings, others are longs."""
        from pyspark.sql import functions as f

        columns = list(zip(*values, strict=True)) or [()] * len(names)
        types = [pa.string() if name in ("topic", "run") else pa.int64() for name in names]
        arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
        table = pa.table(arrays, names=[f"_kseg_{prefix}_{name}" for name in names])
        frame = self.context.spark.session(delta=True).createDataFrame(table)
        return f.broadcast(frame) if table.num_rows <= BROADCAST_ROWS else frame

    def _with_copies(self, joined: DataFrame) -> DataFrame:
        """Add `copies`, the number of runs whose rows are due at the address: nearly always one."""
        from pyspark.sql import functions as f

        several = [(c.topic, c.partition, c.start, c.end, c.copies) for c in self.landed.copies()]
        if not several:
            return joined.withColumn("copies", f.lit(1))
        known = self._side_table("n", several, *_RANGE, "copies")
        joined = joined.join(known, _is_within(OWN_ADDRESS, "n"), "left")
        return joined.withColumn("copies", f.coalesce("_kseg_n_copies", f.lit(1)))

    def _verdict(self) -> Column:
        """Kind and reason of an address; kind null: nothing is wrong."""
        from pyspark.sql import functions as f

        seen = Seen(
            in_kafka=f.col("expected").isNotNull(),
            foreign=f.col("foreign").isNotNull(),
            times=f.col("times"),
            standing=f.coalesce("standing", f.lit(0)),
            kept=f.col("kept"),
            replaced=f.col("replaced"),
            older=f.col("older"),
            copies=f.col("copies"),
            differs=f.size(f.array_except("rows", "expected")) > 0,
        )
        told = f.when(f.lit(False), _told(None, ""))
        for rule in rules(seen, older_once=self.landed.older_once):
            told = told.when(rule.holds, _told(rule.kind, rule.why))
        return told.otherwise(_told(None, ""))


def _told(kind: str | None, why: str) -> Column:
    from pyspark.sql import functions as f

    return f.struct(f.lit(kind).cast("string").alias("kind"), f.lit(why).alias("why"))


def _groups(judged: DataFrame) -> list[Group]:
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
        Group(
            row["kind"], row["why"], row["exact"], row["of"], row["rows"], [FoundAt(*one) for one in row["first"] or ()]
        )
        for row in rows.collect()
    ]


def _fingerprints(
    frame: DataFrame, address: AddressColumns, columns: list[str], name: str, *keep: str, kind: Column | int = 0
) -> DataFrame:
    """Address and fingerprint of each row, and the columns to keep beside them.

    columns: a missing one counts as null. kind: the kind of each row (`expected_rows.Part`). Fingerprints of different
    kinds differ; those of `ADDRESS_ALONE` are all equal.
    """
    from pyspark.sql import functions as f

    where = [f.col(a).alias(b) for a, b in zip(address, OWN_ADDRESS, strict=True)]
    # Spark's hashes skip nulls, so ("a", null) and (null, "a") would be equal without the columns' numbers.
    types = {field.name.lower(): field.dataType for field in frame.schema}
    there = {c: f.col(f"`{c}`") if c.lower() in types else None for c in columns}
    values = [_hashable(column, types[c.lower()]) for c, column in there.items() if column is not None]
    nulls = [f.lit(True) if column is None else column.isNull() for column in there.values()]
    kind = f.lit(kind) if isinstance(kind, int) else kind
    fingerprint = f.struct(
        f.when(kind != ADDRESS_ALONE, f.xxhash64(kind, *values, *nulls)).otherwise(f.lit(0)).alias("one"),
        f.when(kind != ADDRESS_ALONE, f.xxhash64(f.lit(1), kind, *nulls, *values)).otherwise(f.lit(0)).alias("two"),
    )
    return frame.select(*where, fingerprint.alias(name), *keep)


def _hashable(value: Column, kind: DataType) -> Column:
    """A value for Spark's hash functions, which reject maps, skip nulls inside of values, and ignore array lengths."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(kind, MapType):
        entries = f.array_sort(f.map_entries(value))
        return _of_items(entries, lambda x: [x["key"], x["value"].isNull(), _hashable(x["value"], kind.valueType)])
    if isinstance(kind, ArrayType):
        return _of_items(value, lambda x: [x.isNull(), _hashable(x, kind.elementType)])
    if isinstance(kind, StructType) and kind.fields:
        children = [value.getField(field.name) for field in kind.fields]
        hashed = [_hashable(child, field.dataType) for child, field in zip(children, kind.fields, strict=True)]
        return _struct([*hashed, *(child.isNull() for child in children)])
    return value


def _of_items(items: Column, parts: Any) -> Column:
    from pyspark.sql import functions as f

    return _struct([f.size(items), f.transform(items, lambda x: _struct(parts(x)))])


def _struct(parts: list[Column]) -> Column:
    from pyspark.sql import functions as f

    return f.struct(*(part.alias(f"c{number}") for number, part in enumerate(parts)))


def _ranges(offsets: Mapping[TopicPartition, OffsetSet]) -> Iterator[tuple[str, int, int, int]]:
    return ((*tp, *interval) for tp, of_tp in offsets.items() for interval in of_tp)


def _is_within(address: AddressColumns, prefix: str) -> Column:
    """Whether an address lies in the range of a side table's row."""
    from pyspark.sql import functions as f

    topic, partition, start, end = (f.col(f"_kseg_{prefix}_{name}") for name in _RANGE)
    offset = f.col(address.offset)
    same = (topic == f.col(address.topic)) & (partition == f.col(address.partition))
    return same & (offset >= start) & (offset < end)


def rows_by_run(runs: DataFrame) -> Mapping[str | None, int]:
    """The number of rows by `_kseg_run`."""
    from pyspark.sql import functions as f

    return {row[0]: row[1] for row in runs.groupBy(RUN_COLUMN).agg(f.count("*")).collect()}


@contextmanager
def shuffles_for(context: JobContext, rows: int) -> Iterator[None]:
    """Set the number of shuffle partitions for this many rows, unless the user has set it.

    Spark's default is 200 for any size, and a cached frame's are not coalesced: a small table on a small cluster would
    wait minutes for thousands of empty tasks, and a large one would have partitions beyond a task's memory.
    """
    spark = context.spark.session(delta=True)
    if _SHUFFLE_PARTITIONS in spark.conf.getAll:
        yield
        return
    partitions = min(-(-rows // _ROWS_IN_A_PARTITION), _MOST_PARTITIONS)
    spark.conf.set(_SHUFFLE_PARTITIONS, str(max(partitions, 1)))
    try:
        yield
    finally:
        if not context.spark.remote:  # that session ends with the context, and its server may be gone
            spark.conf.unset(_SHUFFLE_PARTITIONS)
