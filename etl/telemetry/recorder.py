"""A listener that records a run's events in bounded memory: the source of reports, metrics and lineage events.

For a run that fails it has what was reported until then. Up to `MAX_TASKS` tasks are kept, without their gaps and
damages; sums are of all tasks. So a plan of a million tasks costs the driver some 20 MB here, and its report shows the
slowest tasks.
"""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from kseg.client.protocol.partition import TopicPartition
from kseg.client.wire.trace import TRAFFIC
from kseg.etl.source.cost import MAX_LINES, TrafficLine, added_up, since
from kseg.etl.telemetry import events
from kseg.etl.telemetry.events import PartitionView
from kseg.etl.telemetry.progress import NullProgress

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.ledger import events as ev
    from kseg.etl.source.range_result import RangeResult

MAX_TASKS = 20_000
MAX_MESSAGES = 200


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task that has ended. seconds: with writing; waiting: for answers; bytes: fetched; rows: records decoded."""

    topic: str
    partition: int
    start: int
    end: int
    rows: int
    bytes: int
    began: float
    seconds: float
    waiting: float
    decoding: float
    throttled: float
    host: str
    executor: str
    attempt: int
    repeated: bool


@dataclass(slots=True)
class Sums:
    """Over all tasks that have ended. repeated_*: of tasks that Spark ran again after they had returned a result."""

    tasks: int = 0
    offsets: int = 0
    rows: int = 0
    bytes: int = 0
    seconds: float = 0.0
    retries: int = 0
    repeated_rows: int = 0
    repeated_bytes: int = 0
    repeated_seconds: float = 0.0


@dataclass
class Telemetry:
    """The measurements of one command's run so far.

    began: seconds since the epoch. phases: in their order, each with the seconds from `began` to its beginning.
    first, last: each partition as it was first and last seen.
    """

    began: float = field(default_factory=time.time)
    job: Job | None = None
    ledger_id: str | None = None
    plan: ev.RunPlan | None = None
    attempt: int = 0
    taken_up: bool = False
    engine: events.EngineChosen | None = None
    spark: events.SparkStarted | None = None
    schemas: dict[str, dict[str, str]] = field(default_factory=dict)
    phases: list[tuple[str, float]] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    first: dict[TopicPartition, PartitionView] = field(default_factory=dict)
    last: dict[TopicPartition, PartitionView] = field(default_factory=dict)
    planned_tasks: int = 0
    tasks: list[TaskLine] = field(default_factory=list)
    tasks_left_out: int = 0
    sums: Sums = field(default_factory=Sums)
    partitions: dict[TopicPartition, Sums] = field(default_factory=dict)
    throttled: dict[int, float] = field(default_factory=dict)
    worker_traffic: list[TrafficLine] = field(default_factory=list)
    driver_traffic: tuple[TrafficLine, ...] = ()
    commits: dict[str, events.TableCommitted] = field(default_factory=dict)
    account_failed: events.AccountFailed | None = None
    ended: float | None = None

    @property
    def traffic(self) -> tuple[TrafficLine, ...]:
        """The traffic of driver and workers together."""
        return added_up([*self.driver_traffic, *self.worker_traffic])

    @property
    def seconds(self) -> float:
        return (self.ended or time.time()) - self.began

    def lag(self, views: Mapping[TopicPartition, PartitionView]) -> int | None:
        """Consumer lag: offsets from the frontiers to the readable ends, over all partitions; None if not read."""
        found = [lag for view in views.values() if (lag := lag_of(view)) is not None]
        return sum(found) if found else None


def lag_of(view: PartitionView) -> int | None:
    """Offsets from the frontier (without one, the log's start) to the last stable offset."""
    begin = view.frontier if view.frontier is not None else view.log_start
    end = view.last_stable_offset if view.last_stable_offset is not None else view.high_watermark
    return max(0, end - begin) if begin is not None and end is not None else None


class Recorder(NullProgress):
    """Listens to one run. `telemetry` may be read at any time; `close` reads the driver's traffic a last time."""

    def __init__(self) -> None:
        self.telemetry = Telemetry()
        self._before = TRAFFIC.snapshot()
        self._lock = threading.Lock()

    def phase(self, name: str) -> None:
        self.telemetry.phases.append((name, self.telemetry.seconds))

    def message(self, text: str) -> None:
        if len(self.telemetry.messages) < MAX_MESSAGES:
            self.telemetry.messages.append(text)

    def close(self) -> Telemetry:
        """The run is over."""
        self.telemetry.driver_traffic = since(self._before)
        self.telemetry.ended = time.time()
        return self.telemetry

    def event(self, event: events.RunEvent) -> None:
        telemetry = self.telemetry
        match event:
            case events.JobOpened():
                telemetry.job, telemetry.ledger_id = event.job, event.ledger_id
            case events.RunPlanned():
                telemetry.plan, telemetry.attempt, telemetry.taken_up = event.plan, event.attempt, event.taken_up
            case events.OffsetsObserved():
                for tp, view in event.partitions.items():
                    telemetry.first[tp] = _filled(telemetry.first.get(tp), view)
                    telemetry.last[tp] = _filled(view, telemetry.last.get(tp))
            case events.EngineChosen():
                telemetry.engine = event
            case events.SparkStarted():
                telemetry.spark = event
            case events.OutputSchema():
                telemetry.schemas[event.table] = dict(event.columns)
            case events.ReadStarted():
                telemetry.planned_tasks += event.tasks
            case events.ReadProgress():
                self._read(event)
            case events.TableCommitted():
                telemetry.commits[event.table] = event
            case events.AccountFailed():
                telemetry.account_failed = event

    def _read(self, now: events.ReadProgress) -> None:
        with self._lock:
            for result in now.ended:
                self._count(result)
            for result in now.repeated:
                self._count_repeated(result)

    def _count(self, result: RangeResult) -> None:
        telemetry = self.telemetry
        tp = TopicPartition(result.topic, result.partition)
        for sums in (telemetry.sums, telemetry.partitions.setdefault(tp, Sums())):
            sums.tasks += 1
            sums.offsets += result.end - result.start
            sums.rows += result.data
            sums.bytes += result.bytes
            if result.cost is not None:
                sums.seconds += result.cost.seconds
                sums.retries += result.cost.attempt
        self._watermarks(tp, result)
        self._cost(result, repeated=False)

    def _count_repeated(self, result: RangeResult) -> None:
        """Count a repeated task: its rows are counted already, its cost is added."""
        sums = self.telemetry.sums
        sums.retries += 1
        sums.repeated_rows += result.data
        sums.repeated_bytes += result.bytes
        sums.repeated_seconds += result.cost.seconds if result.cost is not None else 0.0
        self._cost(result, repeated=True)

    def _cost(self, result: RangeResult, *, repeated: bool) -> None:
        telemetry = self.telemetry
        for broker, seconds in result.throttled:
            telemetry.throttled[broker] = telemetry.throttled.get(broker, 0.0) + seconds
        cost = result.cost
        if cost is None:
            return
        telemetry.worker_traffic += cost.traffic
        if len(telemetry.worker_traffic) > 10 * MAX_LINES:
            telemetry.worker_traffic = list(added_up(telemetry.worker_traffic))
        line = TaskLine(
            *(result.topic, result.partition, result.start, result.end, result.data, result.bytes),
            *(cost.began, cost.seconds, round(result.waiting, 6), round(result.decoding, 6)),
            sum(seconds for _, seconds in result.throttled),
            *(cost.host, cost.executor, cost.attempt, repeated),
        )
        telemetry.tasks.append(line)
        if len(telemetry.tasks) > MAX_TASKS:
            kept = heapq.nlargest(MAX_TASKS // 2, telemetry.tasks, key=lambda task: task.seconds)
            telemetry.tasks_left_out += len(telemetry.tasks) - len(kept)
            telemetry.tasks = kept

    def _watermarks(self, tp: TopicPartition, result: RangeResult) -> None:
        """Fetch responses carry the high watermark and the last stable offset, so lag needs no further request."""
        view = self.telemetry.last.get(tp, PartitionView())
        offsets = {
            "high_watermark": result.high_watermark,
            "last_stable_offset": result.last_stable_offset,
            "log_start": result.log_start,
        }
        higher = {name: seen for name, seen in offsets.items() if seen > (getattr(view, name) or 0)}
        if higher:
            self.telemetry.last[tp] = replace(view, **higher)


def _filled(view: PartitionView | None, other: PartitionView | None) -> PartitionView:
    """The view, with the other's values where it has none."""
    if view is None or other is None:
        return view or other or PartitionView()
    return PartitionView(
        *(
            getattr(other, one.name) if getattr(view, one.name) is None else getattr(view, one.name)
            for one in fields(PartitionView)
        )
    )
