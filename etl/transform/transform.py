"""All steps of a job in their order: first those on batches, then those on the DataFrame.

The schema that steps on batches give is found in the driver, without rows, and every batch in a worker is held to it:
a function that builds a column without naming its type would otherwise give another type for another batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from kseg.etl.decoding.bad_records import BadRecords
from kseg.etl.decoding.framed import FramedSchemas
from kseg.etl.source.errors import ArrowStepError
from kseg.etl.transform.arrow import ArrowStep
from kseg.etl.transform.decode import NO_SCHEMAS
from kseg.etl.transform.decode_by_topic import decode_step_of
from kseg.etl.transform.python import PythonStep
from kseg.etl.transform.sql import SqlStep
from kseg.etl.transform.step import ONE_SCHEMA, Address, BatchStep, FrameStep, Step

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kseg.etl.config.job import Job

KINDS: Mapping[str, Callable[[str, str], Step]] = {"arrow": ArrowStep, "sql": SqlStep, "python": PythonStep}
"""By the key that an item of `transform:` has in the job file: makes the step of the key's text and its place."""


@dataclass(frozen=True)
class BatchSteps:
    """The steps that workers apply to batches. Picklable."""

    steps: tuple[BatchStep, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics whose rows are made in another way, `*` for all others; () if all are made alike."""
        return next((step.topics for step in self.steps if step.topics), ())

    def of_topic(self, topic: str) -> BatchSteps:
        """The steps on batches of this topic. Raises ConfigurationError where one has nothing for it."""
        return BatchSteps(tuple(step.of_topic(topic) for step in self.steps)) if self.topics else self

    @property
    def decoding(self) -> BatchSteps:
        """Of these, what sets records aside: a reading for the account alone has to apply it."""
        return BatchSteps(tuple(step for step in self.steps if step.sets_aside))

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
        for step in self.steps:
            batch = step.apply(batch, address, bad_records)
        if not batch.schema.equals(expected):
            message = f"the steps returned {_difference(expected, batch.schema)}"
            raise ArrowStepError(message, remedy=ONE_SCHEMA, **address)
        return batch


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


def transform_of(job: Job, schemas: Mapping[str, FramedSchemas] = NO_SCHEMAS) -> Transform:
    """The steps of a job file, which lets none on batches come behind one on the DataFrame; decoding comes first.

    schemas: of a registry, as a run has pinned them; without them such a job's rows have no schema yet.
    """
    steps: list[Step] = [decode_step_of(job.decode, schemas)] if job.decode is not None else []
    steps += [
        KINDS[kind](text, f"transform[{number}].{kind}")
        for number, section in enumerate(job.transform)
        for kind, text in section
    ]
    return Transform(
        BatchSteps(tuple(step for step in steps if isinstance(step, BatchStep))),
        tuple(step for step in steps if isinstance(step, FrameStep)),
    )


def _difference(expected: pa.Schema, got: pa.Schema) -> str:
    if expected.names != got.names:
        return f"columns {got.names}, not {expected.names}"
    pairs = zip(expected, got, strict=True)
    return ", ".join(f"{_described(new)}, not {_described(old)}" for old, new in pairs if not new.equals(old))


def _described(field: pa.Field) -> str:
    return f"{field.name}: {field.type}" + ("" if field.nullable else " not null")
