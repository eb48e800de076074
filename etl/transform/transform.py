"""All steps of a job in their order: first those on batches, then those on the DataFrame.

The schema that steps on batches give is found in the driver, without rows, and workers compare every batch with it: a
function that builds a column without naming its type may give another type for another batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kseg.etl.decoding.bad_records import TRANSFORM, BadRecord, BadRecords
from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.decoding.record_ids import RecordIds
from kseg.etl.decoding.rules import NEWEST, DecodingRules
from kseg.etl.rows.names import ROUTE_COLUMN
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.decode import NO_SCHEMAS
from kseg.etl.transform.decode_by_topic import decode_step_of
from kseg.etl.transform.derived import DerivedColumn, DeriveFrameStep, DeriveStep
from kseg.etl.transform.duckdb_sql import DuckdbStep
from kseg.etl.transform.failing_records import MoreThanAllowed, without_failing
from kseg.etl.transform.python import PythonStep
from kseg.etl.transform.route import RouteStep
from kseg.etl.transform.sql import SqlStep
from kseg.etl.transform.step import ONE_SCHEMA, Address, BatchStep, FrameStep, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kseg.etl.config.job import Job

KINDS: Mapping[str, Callable[[str, str], Step]] = {
    "arrow": ArrowStep,
    "duckdb": DuckdbStep,
    "sql": SqlStep,
    "python": PythonStep,
}
"""By the key that an item of `transform:` has in the job file: makes the step of the key's text and its place."""


@dataclass(frozen=True)
class BatchSteps:
    """The steps that workers apply to batches. Picklable."""

    steps: tuple[BatchStep, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics with steps of their own, `*` for all others; () if all topics are treated alike."""
        return next((step.topics for step in self.steps if step.topics), ())

    def of_topic(self, topic: str) -> BatchSteps:
        """The steps on batches of this topic. Raises ConfigurationError where one has nothing for it."""
        return BatchSteps(tuple(step.of_topic(topic) for step in self.steps)) if self.topics else self

    @property
    def decoding(self) -> BatchSteps:
        """The steps that set records aside, which also a job that only counts has to apply."""
        if any(step.has_dead_letters for step in self.steps):
            return self  # a step of the user may raise for a record
        return BatchSteps(tuple(step for step in self.steps if step.sets_aside))

    @property
    def routed(self) -> bool:
        """Whether rows are routed to tables by something else than their topic."""
        return any(isinstance(step, RouteStep) for step in self.steps)

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The schema of what comes out for rows of this schema. Raises ConfigurationError."""
        for step in self.steps:
            rows = step.output_schema(rows)
        return rows

    def apply(
        self, batch: pa.RecordBatch, expected: pa.Schema, address: Address, bad_records: BadRecords | None = None
    ) -> pa.RecordBatch:
        """All steps on one batch.

        expected: what `output_schema` gave; address: where the batch's records come from, for errors; bad_records:
        takes the records that have no row.

        Raises:
            ArrowStepError: a step failed, or what came out has another schema.
        """
        bad_records = bad_records or BadRecords()
        records, rows = batch, batch
        of_user = self.steps
        if of_user and of_user[0].decodes:
            rows = of_user[0].apply(records, address, bad_records)
            of_user = of_user[1:]

        def steps(rows: pa.RecordBatch) -> pa.RecordBatch:
            for step in of_user:
                rows = step.apply(rows, address, bad_records)
            if not rows.schema.equals(expected):
                message = f"the steps returned {_difference(expected, rows.schema)}"
                raise ArrowStepError(message, remedy=ONE_SCHEMA, **address)
            return rows

        try:
            return steps(rows)
        except ArrowStepError as error:
            if error.raised is None:
                raise
            return self._without_failing(records, rows, steps, error, bad_records)

    def _without_failing(
        self,
        records: pa.RecordBatch,
        rows: pa.RecordBatch,
        steps: Callable[[pa.RecordBatch], pa.RecordBatch],
        error: ArrowStepError,
        bad_records: BadRecords,
    ) -> pa.RecordBatch:
        """What steps of the user give for rows of these records, of which some are the reason that they raise.

        Raises ArrowStepError with the first record's address, or TooManyDeadLetters.
        """
        sets_aside = any(step.has_dead_letters for step in self.steps)
        ids = RecordIds.of(rows)
        try:
            outputs, failing = without_failing(rows, steps, error, bad_records.most_more if sets_aside else 0)
        except MoreThanAllowed as more:
            outputs, failing = [], more.failing
        if not sets_aside:
            row, first = next(iter(failing.items()))
            first.address |= ids.at(row)
            raise first
        at = ids.take(list(failing)).places_in(RecordIds.of(records)).tolist()
        errors = dict(zip(at, failing.values(), strict=True))

        def explain(row: int) -> BadRecord:
            of_row = errors[row]
            return BadRecord(row, "row", TRANSFORM, of_row.step or "", of_row.raised or "")

        bad_records.count(DecodingCounts(decoded=-len(errors)))
        if ROUTE_COLUMN in rows.schema.names:
            bad_records.route(rows.column(ROUTE_COLUMN).take(pa.array(list(failing), pa.int64())), -1)
        bad_records.dead(records, sorted(errors), explain)
        return pa.concat_batches(outputs) if outputs else steps(rows.slice(0, 0))


NO_STEPS = BatchSteps()


@dataclass(frozen=True)
class Transform:
    """The steps of a job."""

    on_batches: BatchSteps
    on_frame: tuple[FrameStep, ...]

    def __iter__(self) -> Iterator[Step]:
        yield from self.on_batches.steps
        yield from self.on_frame

    def apply_to_frame(self, rows: DataFrame) -> DataFrame:
        """The rows after the steps on the DataFrame; nothing is computed yet. Raises ConfigurationError."""
        for step in self.on_frame:
            rows = step.apply(rows)
        return rows


def transform_of(
    job: Job, schemas: Mapping[str, FramedSchemas] = NO_SCHEMAS, rules: DecodingRules = NEWEST
) -> Transform:
    """The steps of a job file: decoding and routes first, then those on batches, then those on the DataFrame.

    schemas: those of a registry, as a run has pinned them; without them such a job's rows have no schema yet. rules: of
    decoding; a run's are in its plan.
    """
    decode = decode_step_of(job.decode, schemas, rules, job.refuses_names) if job.decode is not None else None
    steps: list[Step] = [decode] if decode is not None else []
    if (by := job.sink.routing) is not None:
        assert by.kind != "topic" and job.sink.routes is not None  # noqa: PT018
        steps = [RouteStep(by.kind, by.name, tuple(job.sink.routes), decode)]
    steps += [
        KINDS[kind](text, f"transform[{number}].{kind}")
        for number, section in enumerate(job.transform)
        for kind, text in section
    ]
    if derived := derived_columns(job):
        frame = any(isinstance(step, FrameStep) for step in steps)
        steps.append(DeriveFrameStep(derived) if frame else DeriveStep(derived))
    return Transform(
        BatchSteps(tuple(step for step in steps if isinstance(step, BatchStep))),
        tuple(step for step in steps if isinstance(step, FrameStep)),
    )


def derived_columns(job: Job) -> tuple[DerivedColumn, ...]:
    """Partition columns that are made of others: the last step of all."""
    return tuple(
        DerivedColumn(one.name, one.function, one.column, one.buckets, place)
        for place, one in job.sink.derived_partitions.items()
    )


def _difference(expected: pa.Schema, got: pa.Schema) -> str:
    if expected.names != got.names:
        return f"columns {got.names}, not {expected.names}"
    pairs = zip(expected, got, strict=True)
    return ", ".join(f"{_described(new)}, not {_described(old)}" for old, new in pairs if not new.equals(old))


def _described(field: pa.Field) -> str:
    return f"{field.name}: {field.type}" + ("" if field.nullable else " not null")
