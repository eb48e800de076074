"""The rows that a table should have: the records in Kafka, read again and decoded as the runs that landed them did.

A run is decoded with the job file and the schemas that its plan has pinned, even if both have changed since. Runs with
the same decoding form one `Decoding` and are read together. Only the addresses are compared of rows whose run's
decoding is no longer known, and of rows that a transform made.

This module decides which records make which rows; `spark_comparison` and `driver_comparison` read them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, Literal

import pyarrow as pa

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.decoding.bad_records import RECORD_COLUMNS
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.kinds import plain_name
from kseg.etl.decoding.rules import DecodingRules
from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.ranges import EMPTY, Interval, OffsetSet, union_of
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.values import PinnedSchemas
from kseg.etl.operations.as_planned import as_planned
from kseg.etl.operations.landings import TableLandings
from kseg.etl.rows.names import (
    KSEG_ADDRESS,
    LATE_COLUMN,
    OWN_ADDRESS,
    RESERVED_PREFIX,
    ROUTE_COLUMN,
    RUN_COLUMN,
    AddressColumns,
)
from kseg.etl.run.context import JobContext
from kseg.etl.run.read_options import read_options, read_tasks
from kseg.etl.run.schemas import framed_schemas
from kseg.etl.run.sink_rows import record_columns, sink_schema_of
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.tasks import RangeTask
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.transform.fit import BlankStep, FitStep
from kseg.etl.transform.route import as_landed
from kseg.etl.transform.topics import rows_by_topic
from kseg.etl.transform.transform import BatchSteps, transform_of

ByPartition = dict[TopicPartition, OffsetSet]

TypesOf = Callable[[list[str]], pa.Schema]
"""Columns of a table -> their types, as rows are landed in it."""

Engine = Literal["fast", "reference"]

RAW: Final = 0
"""The kind of rows that are records as they are, without any decoding."""

ADDRESS_ALONE: Final = -1
"""The kind of rows that are compared by their addresses alone."""

SAMPLE: Final = 20_000
"""The number of records of a table that the reference decoder (plain Python) decodes, in blocks of `SAMPLE_BLOCK`."""

SAMPLE_BLOCK: Final = 500

_SMALL_HOLE: Final = 5_000
"""Gaps of up to this many offsets between two ranges are read and dropped: a Fetch for each range takes longer."""


@dataclass(frozen=True)
class Decoding:
    """How some runs decoded and routed. job: as pinned. schemas: by lineage. redriven: whether they are redrives.
    rules: of decoding."""

    job: Job
    schemas: Mapping[str, FramedSchemas]
    redriven: bool
    runs: tuple[str, ...]
    rules: DecodingRules

    def steps(self, engine: Engine = "fast") -> BatchSteps:
        """The steps without the user's transform, whose output is not compared."""
        made = transform_of(self.job, self.schemas, self.rules).on_batches.steps
        kept = made[:1] if self.transformed else made
        return BatchSteps(tuple(as_landed(step, engine) for step in kept))

    @property
    def transformed(self) -> bool:
        """Whether a transform made their rows, of which the addresses alone are compared."""
        return bool(self.job.transform)

    @property
    def decodes(self) -> bool:
        """Whether their rows are decoded, and not the records as they are."""
        return self.job.decode is not None

    def columns(self, topics: Iterable[str]) -> set[str]:
        """Columns of the rows of these topics of one table, in lower case."""
        return {plain_name(name).lower() for made in self._schemas(topics) for name in made.names}

    def _schemas(self, topics: Iterable[str]) -> Iterator[pa.Schema]:
        made = rows_by_topic(self.steps(), read_options(self.job).schema, dict.fromkeys(topics, ""))
        return (of_topic.schema for of_topic in made.values())

    def without(self, topics: Iterable[str], routes: Iterable[str]) -> frozenset[str]:
        """Columns that are null in the rows of these topics: dead letters have no provenance, and the table that these
        routes lead to may get only some columns."""
        read = read_options(self.job).schema.names if self.redriven else []
        without = {
            f"{RESERVED_PREFIX}{name}"
            for name in read
            if name not in RECORD_COLUMNS and not name.startswith(RESERVED_PREFIX)
        }
        for schema, sink in self._landed(topics, routes):
            landed = set(sink.columns.names)
            # Rows are found by their address columns here, whether these are landed or not.
            without |= {name for name in schema.names if name not in landed and name not in KSEG_ADDRESS}
        return frozenset(without - {ROUTE_COLUMN})

    def sources(self, topics: Iterable[str], routes: Iterable[str]) -> dict[str, str]:
        """By column of the table that these routes lead to: its name in the rows of these topics, if it differs."""
        return {name: column for _, sink in self._landed(topics, routes) for name, column in sink.sources}

    def _landed(self, topics: Iterable[str], routes: Iterable[str]) -> Iterator[tuple[pa.Schema, SinkSchema]]:
        """If the table of these routes gets only some columns of the rows: the rows' schemas, and what it gets."""
        # By the run's own name for the table, which may have moved since.
        table = next((str(self.job.sink.targets[route]) for route in routes), None)
        if table is None:
            return
        records = None if self.transformed else record_columns(self.steps(), topics)
        of_kinds = records if records is not None and records.of_kinds else None
        if of_kinds is not None or self.job.sink.columns_of(table) is not None:
            for schema in self._schemas(topics):
                yield schema, sink_schema_of(self.job, schema, table, records=of_kinds)


def decodings(job: Job, state: JobState, runs: Iterable[str]) -> list[Decoding]:
    """How these runs decoded, one `Decoding` for all with the same one. Runs whose decoding is unknown are left out."""
    alike: dict[str, list[RunState]] = {}
    for run_id in runs:
        run = state.runs.get(run_id)
        document = json.loads(run.plan.pinned_config) if run is not None and run.plan.pinned_config else {}
        if run is None or run.archived:
            continue
        if not run.plan.routed and (document.get("decode") is None or document.get("transform")):
            continue
        pinned = {lineage: (one.registry, one.reader, one.kinds) for lineage, one in run.plan.schemas.items()}
        of_rows = [document.get("decode"), document.get("transform"), run.plan.routes]
        columns = {route: its.get("columns") for route, its in (document["sink"].get("routes") or {}).items()}
        decided = [of_rows, columns, document["source"], pinned, run.mode == REDRIVE, run.plan.decoding_rules]
        alike.setdefault(json.dumps(decided, sort_keys=True), []).append(run)
    found = []
    for of_one in alike.values():
        first = of_one[0]
        try:
            pinned_job = as_planned(job, first)
        except ConfigurationError:
            continue  # an earlier release accepted a job file that this one rejects
        plan = replace(first.plan, schemas=_all_writers(of_one))
        schemas = {name: replace(known, closed=True) for name, known in framed_schemas(pinned_job, plan, state).items()}
        ids = tuple(run.run_id for run in of_one)
        found.append(Decoding(pinned_job, schemas, first.mode == REDRIVE, ids, first.plan.rules))
    return found


def _all_writers(runs: list[RunState]) -> dict[str, PinnedSchemas]:
    """The writer schemas that these runs have pinned, merged. A schema that one run could not resolve is taken from a
    run that could."""
    made: dict[str, PinnedSchemas] = {}
    for run in runs:
        for lineage, pinned in run.plan.schemas.items():
            before = made.get(lineage, pinned).writers
            known = {key: hash for key, hash in pinned.writers.items() if hash or key not in before}
            made[lineage] = replace(pinned, writers={**before, **known})
    return made


@dataclass(frozen=True)
class Part:
    """Offsets that are read in the same way. kind: of their rows; rows of different kinds are never equal. decoding:
    None if the rows are raw records, or compared by address alone."""

    kind: int
    offsets: ByPartition
    decoding: Decoding | None = None
    engine: Engine = "fast"

    @property
    def address(self) -> AddressColumns:
        """The address columns of the rows as they are read."""
        return KSEG_ADDRESS if self.decoding is not None else OWN_ADDRESS


@dataclass(frozen=True)
class Reading:
    """How the rows of a part are made. steps: applied to the records. routes: only rows
    with one of these routes belong to the part; empty: all rows. beyond: whether offsets outside of the part are read,
    too."""

    tasks: tuple[RangeTask, ...]
    options: DecodeOptions
    steps: BatchSteps
    routes: Sequence[str] = ()
    beyond: bool = False


@dataclass
class ExpectedRows:
    """The rows that one table should have.

    offsets: the compared offsets. absent: those of them at which no row is due. whole: whether whole rows are compared,
    and not only addresses. decoded: whether records are decoded. reference: whether a sample is decoded with the
    reference decoders (plain Python). sampled: the number of offsets in that sample.

    If runs routed rows of one range to several tables, the range is read as the runs read it, and rows routed to other
    tables are left out.
    """

    context: JobContext
    state: JobState
    landed: TableLandings
    offsets: Mapping[TopicPartition, OffsetSet]
    absent: Mapping[TopicPartition, OffsetSet]
    whole: bool = True
    decoded: bool = False
    reference: bool = False
    sampled: int = 0

    def __contains__(self, address: tuple[str | None, int | None, int | None]) -> bool:
        topic, partition, offset = address
        of_partition = self.offsets.get(TopicPartition(topic, partition), EMPTY)  # type: ignore[arg-type]
        return offset is not None and offset in of_partition

    @cached_property
    def decodings(self) -> list[Decoding]:
        runs = dict.fromkeys([*self.landed.standing, *self.landed.kept])
        return decodings(self.context.job, self.state, runs) if self._by_run else []

    @property
    def _by_run(self) -> bool:
        """Whether rows depend on the runs that landed them."""
        return self.decoded or bool(self.landed.routes)

    @cached_property
    def kinds(self) -> dict[str, int]:
        """The kind of rows by run id. Rows of all other runs have the kind `kind_of_others`."""
        return {run: self._kind(number, one) for number, one in enumerate(self.decodings, 1) for run in one.runs}

    def _kind(self, number: int, one: Decoding) -> int:
        return number if self.whole and not one.transformed else ADDRESS_ALONE

    @property
    def kind_of_others(self) -> int:
        return RAW if self.whole and not self.decoded else ADDRESS_ALONE

    @cached_property
    def parts(self) -> list[Part]:
        due = {tp: now for tp, of_tp in self.offsets.items() if (now := of_tp.subtract(self.absent.get(tp, EMPTY)))}
        if not self._by_run:
            return [Part(self.kind_of_others, due)]
        parts = []
        for number, one in enumerate(self.decodings, 1):
            mine = _within(due, self._claimed(one.runs))
            sample = _sample(mine, SAMPLE) if self.reference and self.decoded else {}
            self.sampled += sum(of_tp.length for of_tp in sample.values())
            kind = self._kind(number, one)
            parts.append(Part(kind, sample, one, "reference"))
            parts.append(Part(kind, {tp: mine[tp].subtract(sample.get(tp, EMPTY)) for tp in mine}, one))
        others = [run for run in (*self.landed.standing, *self.landed.kept) if run not in self.kinds]
        theirs = union_of([self._claimed(others), self.landed.older])
        parts.append(Part(self.kind_of_others, _within(due, theirs)))
        return [part for part in parts if any(part.offsets.values())]

    def _claimed(self, runs: Iterable[str]) -> ByPartition:
        return union_of(of.get(run, {}) for run in runs for of in (self.landed.standing, self.landed.kept))

    @property
    def overlap(self) -> bool:
        """Whether rows of different kinds are due at one address."""
        offsets = [part.offsets for part in self.parts]
        length = sum(of_tp.length for one in offsets for of_tp in one.values())
        return length != sum(of_tp.length for of_tp in union_of(offsets).values())

    def columns(self, names: Iterable[str]) -> list[str]:
        """Those of the table's columns that are compared."""
        ours = {RUN_COLUMN, LATE_COLUMN, *KSEG_ADDRESS} if self.decoded else {RUN_COLUMN, LATE_COLUMN}
        columns = [name for name in names if name not in ours] if self.whole else []
        if not self.decoded:
            return columns
        made: set[str] = set()
        for part in self.parts:
            if part.decoding is not None and part.kind != ADDRESS_ALONE:
                made |= part.decoding.columns({tp.topic for tp, of_tp in part.offsets.items() if of_tp})
        return [name for name in columns if name.lower() in made]

    def of_all_records(self) -> Part:
        """A part with the addresses of all records at the compared offsets, whichever table they are due in."""
        return Part(ADDRESS_ALONE, dict(self.offsets))

    def reading(
        self, part: Part, types: TypesOf, columns: list[str], partition_by: Iterable[str] = (), *, cores: int = 1
    ) -> Reading:
        """How the part's rows are read.

        types: of the table's columns. columns: the compared ones. partition_by: the table's partition columns.
        cores: the number of cores that will read.
        """
        context = self.context
        wanted = {tp: of_tp for tp, of_tp in part.offsets.items() if of_tp}
        read = {tp: _without_holes(of_tp) for tp, of_tp in wanted.items()}
        ranges = [one for tp, of_tp in read.items() for one in of_tp.ranges(tp)]
        tasks = read_tasks(context.job, context.clients.logs, ranges, self.state.topics, min_tasks=cores)
        beyond = read != wanted
        options = read_options(context.job)
        how = part.decoding
        if how is None:
            # For raw rows the steps make partition columns that are derived from others. Addresses need no steps.
            made_of = transform_of(context.job).on_batches.steps if part.kind == RAW else ()
            return Reading(tasks, options, BatchSteps(tuple(map(as_landed, made_of))), beyond=beyond)
        own = read_options(how.job)
        options = replace(options, provenance=own.provenance, addresses=True)
        steps = how.steps(part.engine)
        routes = sorted({route for run in how.runs for route in self.landed.routes.get(run, ())})
        topics = {tp.topic for tp in wanted}
        without = how.without(topics, routes) if part.kind != ADDRESS_ALONE else frozenset()
        if how.decodes and part.kind != ADDRESS_ALONE:
            fitted = types([*KSEG_ADDRESS, *columns])
            if routes:
                fitted = fitted.append(pa.field(ROUTE_COLUMN, pa.string()))
            sources = how.sources(topics, routes)
            steps = BatchSteps((*steps.steps, FitStep(fitted, without, frozenset(partition_by), sources)))
        elif without:
            steps = BatchSteps((*steps.steps, BlankStep(without)))
        return Reading(tasks, options, steps, routes, beyond)


def _within(offsets: ByPartition, others: Mapping[TopicPartition, OffsetSet]) -> ByPartition:
    return {tp: both for tp, of_tp in offsets.items() if (both := of_tp.intersect(others.get(tp, EMPTY)))}


def _without_holes(offsets: OffsetSet) -> OffsetSet:
    """The same offsets with small gaps filled."""
    made: list[Interval] = []
    for start, end in offsets:
        if made and start - made[-1][1] <= _SMALL_HOLE:
            made[-1] = made[-1][0], end
        else:
            made.append((start, end))
    return OffsetSet.of(made)


def _sample(offsets: ByPartition, most: int, block: int = SAMPLE_BLOCK) -> ByPartition:
    """About `most` of these offsets, in blocks at equal distances; all of them if there are no more."""
    length = sum(of_tp.length for of_tp in offsets.values())
    if length <= most:
        return dict(offsets)
    distance = -(-length * block // most)
    sample: ByPartition = {}
    before, due = 0, 0
    for tp, of_tp in offsets.items():
        chosen: list[Interval] = []
        for start, end in of_tp:
            while due < before + end - start:
                first = start + due - before
                chosen.append((first, min(first + block, end)))
                due += distance
            before += end - start
        sample[tp] = OffsetSet.of(chosen)
    return sample
