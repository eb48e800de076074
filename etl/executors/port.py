"""The executor port: runs the packs of one read, and returns what the successful attempts did.

| executor | packs run in |
| --- | --- |
| `spark` | Spark tasks of this process's SparkContext |
| `connect` | tasks of a Spark Connect server |
| `local` | processes of this host, without a JVM |
| `driver` | this process, where records lie in its memory |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.packing import Routes
from kseg.etl.source.tasks import RangeTask
from kseg.etl.tasks.packs import NOTHING_BESIDE, Beside, PackPlan, Source, TaskResult, Write
from kseg.etl.telemetry.events import ReadProgress
from kseg.etl.transform.transform import NO_STEPS, BatchSteps


@dataclass(frozen=True)
class Read:
    """Tasks to read, transform and write, small ones together.

    write: must read its rows to the end; failed attempts leave their files behind.
    routes: one call of `write` gets only rows of one table.
    alike: all topics whose rows have a common schema; None: each table has its own schema.
    on_progress: called from one thread at a time while the tasks run.
    """

    tasks: Sequence[RangeTask]
    source: Source
    options: DecodeOptions
    write: Write
    steps: BatchSteps = NO_STEPS
    beside: Beside = NOTHING_BESIDE
    routes: Routes = field(default_factory=dict)
    alike: Collection[str] | None = None
    on_progress: Callable[[ReadProgress], None] | None = None

    def packs(self, parallelism: int) -> PackPlan:
        """The tasks in packs. Raises ConfigurationError: the Arrow steps."""
        return PackPlan.of(
            self.tasks,
            self.source,
            self.options,
            self.steps,
            self.beside,
            routes=self.routes,
            mixed=self.alike is None,
            cores=parallelism,
            topics=self.alike or (),
        )


class Executor(Protocol):
    """Runs reads, one after another."""

    @property
    def parallelism(self) -> int:
        """The number of packs that run at the same time."""

    def run(self, read: Read) -> tuple[TaskResult, ...]:
        """The results of the successful attempts at all packs of a read.

        Raises:
            ConfigurationError: the Arrow steps.
            KsegError, KafkaError, RecordFormatError, LogFileError: what a task raised (see `RangeReader`).
            RetriableFailure: workers were lost, or a task has no result.
        """
