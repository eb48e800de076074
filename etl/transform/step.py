"""What a transform step is: an object that passes whole from the job file to where it is applied.

    BatchStep    schema -> schema, RecordBatch -> RecordBatch      in the workers, as records are decoded
    FrameStep    DataFrame -> DataFrame, whose schema Spark finds  in the driver, before Spark plans the query

A step is picklable, and its module imports nothing that a worker does not have (no job file, no pydantic, no Spark
before it is applied). `transform.py` makes steps from the job file; who applies them does not ask of which kind they
are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kseg.etl.decoding.bad_records import BadRecords

ROWS_VIEW = "__rows__"
"""What SQL steps call the rows that they select from."""

Address = Mapping[str, Any]
"""Where a batch's records come from: topic, partition, and the offset of the first."""

ONE_SCHEMA = "an Arrow step takes a pyarrow.RecordBatch and returns one, of the same columns and types for every batch"


class Step(ABC):
    """One step of a job's transform. place: its path in the job file (`transform[0].arrow`), for errors."""

    place: str

    @property
    def references(self) -> tuple[str, ...]:
        """Functions of the user that it calls, as `module:function`; `needed_modules` finds the modules they need."""
        return ()


class BatchStep(Step):
    """A step on Arrow batches."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics that it names because their rows are made in another way, `*` for all others; () if it names none."""
        return ()

    def of_topic(self, topic: str) -> BatchStep:
        """The step on batches of this topic. Raises ConfigurationError where there is none."""
        return self

    @property
    def sets_aside(self) -> bool:
        """Whether it takes records out, or changes them, that the account has to count (`BadRecords`)."""
        return False

    @abstractmethod
    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        """The schema of what it gives for rows of this schema. Raises ConfigurationError where it does not work."""

    @abstractmethod
    def apply(self, batch: pa.RecordBatch, address: Address, bad_records: BadRecords | None = None) -> pa.RecordBatch:
        """Its rows for these. bad_records: takes those that have no row. Raises ArrowStepError with the address."""


class FrameStep(Step):
    """A step on the DataFrame of all rows."""

    @abstractmethod
    def apply(self, rows: DataFrame) -> DataFrame:
        """The rows after it; nothing is computed yet. Raises ConfigurationError where it does not work."""
