"""Events that a run reports to its listeners (`Progress.event`), for bars, reports, metrics and lineage.

    JobRead ─► JobOpened ─► OffsetsObserved ─► RunPlanned ─► EngineChosen ─► SparkStarted ─► OutputSchema
            ─► ReadStarted ─► ReadProgress … ─► TableCommitted … ─► OffsetsObserved ─► RunEnded

RunEnded is sent where another run follows. An event is sent after it has happened; a run that fails leaves out the
rest. All are frozen values from the driver, `ReadProgress` from a thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kseg.client.protocol.partition import TopicPartition
    from kseg.etl.config.job import Job
    from kseg.etl.ledger import events as ev
    from kseg.etl.source.range_result import RangeResult


@dataclass(frozen=True, slots=True)
class JobRead:
    """A command's job file has been read. job: None where the file is not valid, and only its name could be read."""

    name: str
    job: Job | None


@dataclass(frozen=True, slots=True)
class JobOpened:
    """A command works on this job."""

    job: Job
    ledger_id: str | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition at one moment, in offsets. A value that was not requested is None.

    committed: -1 where the group has none. frontier: None before the first run.
    """

    log_start: int | None = None
    high_watermark: int | None = None
    last_stable_offset: int | None = None
    committed: int | None = None
    frontier: int | None = None


@dataclass(frozen=True, slots=True)
class OffsetsObserved:
    """Current offsets of partitions: values of a view that were not read at this moment are None."""

    partitions: Mapping[TopicPartition, PartitionView]


@dataclass(frozen=True, slots=True)
class RunPlanned:
    """The run that is carried out. attempt: the number of this lease on its chain.

    taken_up: the run was planned by an earlier attempt.
    """

    plan: ev.RunPlan
    attempt: int
    taken_up: bool = False


@dataclass(frozen=True, slots=True)
class EngineChosen:
    """The executor of the run's tasks: `spark`, `connect` or `local`. why: the reason, for users."""

    executor: str
    why: str


@dataclass(frozen=True, slots=True)
class SparkStarted:
    """The Spark application that does the work. ui: its web page; None where it has none."""

    application_id: str
    master: str
    ui: str | None


@dataclass(frozen=True, slots=True)
class ReadStarted:
    """Tasks begin to read. name: `count` or `land`. totals: offsets to read by partition."""

    name: str
    tasks: int
    totals: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class ReadProgress:
    """The progress of a Spark job. A task counts when it has ended.

    offsets, rows, bytes: so far, of records decoded and bytes fetched. ended: results that came since the last
    `ReadProgress`; repeated: those of tasks that had returned one before, because Spark ran them twice.
    """

    tasks: int
    tasks_done: int
    offsets: int
    rows: int
    bytes: int
    ended: tuple[RangeResult, ...] = ()
    repeated: tuple[RangeResult, ...] = ()


@dataclass(frozen=True, slots=True)
class TableCommitted:
    """A table has the run's rows. `commit.found`: they were committed by an earlier attempt.

    quarantine, dead_letters: it is one of the tables beside, which have no rows.
    """

    table: str
    commit: ev.TableCommit
    quarantine: bool = False
    dead_letters: bool = False

    @property
    def has_rows(self) -> bool:
        return not (self.quarantine or self.dead_letters)


@dataclass(frozen=True, slots=True)
class OutputSchema:
    """The schema of the rows that a table gets: names and types of columns in their order."""

    table: str
    columns: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AccountFailed:
    """An equation of the account does not hold."""

    equation: str
    reason: str


@dataclass(frozen=True, slots=True)
class RunEnded:
    """One of several runs of a command has ended, and another one may follow.

    document: its report, as --json prints that of a single run. Listeners add to it what they have measured.
    """

    document: dict[str, Any]


RunEvent = (
    JobRead
    | JobOpened
    | OffsetsObserved
    | RunPlanned
    | EngineChosen
    | SparkStarted
    | ReadStarted
    | ReadProgress
    | TableCommitted
    | OutputSchema
    | AccountFailed
    | RunEnded
)
