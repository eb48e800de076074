"""The interface of a transform step: an object that is made from the job file and sent to where it is applied.

    BatchStep    schema -> schema, RecordBatch -> RecordBatch      in the workers, as records are decoded
    FrameStep    DataFrame -> DataFrame, whose schema Spark finds  in the driver, before Spark plans the query

A step is picklable, and its module imports nothing that a worker does not have (no job file, no pydantic, no Spark
before it is applied). `transform.py` makes steps from the job file; what applies them does not depend on their kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kseg.etl.decoding.bad_records import BadRecords

Address = Mapping[str, Any]
"""The origin of a batch's records: topic, partition, and the offset of the first."""

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
        """The topics for which it has steps of their own, `*` for all others; () if it treats all topics alike."""
        return ()

    def of_topic(self, topic: str) -> BatchStep:
        """The step on batches of this topic. Raises ConfigurationError where there is none."""
        return self

    @property
    def sets_aside(self) -> bool:
        """Whether it leaves out or changes records that the account has to count (`BadRecords`)."""
        return False

    @property
    def decodes(self) -> bool:
        """Whether it is the step of `decode:`, which is the first."""
        return False

    @property
    def has_dead_letters(self) -> bool:
        """Whether a record without a row is a dead letter."""
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
