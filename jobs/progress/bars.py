"""Progress as bars on a terminal: one for each phase, and optionally one for each partition that is read."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Self

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.telemetry.events import ReadProgress, ReadStarted, RunEvent
from kseg.etl.telemetry.progress import Unit
from kseg.jobs.output.tables import console_for
from kseg.jobs.progress.pace import Pace, clock, human

if TYPE_CHECKING:
    from rich.progress import TaskID

PARTITIONS_SHOWN = 20


class BarProgress:
    """Bars on this terminal. partitions: also one for each of the `PARTITIONS_SHOWN` with most left to read."""

    def __init__(self, stream: IO[str], *, partitions: bool = False) -> None:
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            SpinnerColumn(),
            TextColumn("{task.description:<10}", markup=False),
            BarColumn(bar_width=None),
            TaskProgressColumn(),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=console_for(stream),
            transient=True,
        )
        self._partitions = partitions
        self._phase: TaskID | None = None
        self._unit: Unit = "rows"
        self._pace: Pace | None = None
        self._totals: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, int] = {}
        self._shown: dict[TopicPartition, TaskID] = {}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()

    def phase(self, name: str) -> None:
        self._finish()
        self._pace = None
        self._phase = self._bars.add_task(name, total=None, text="")

    def total(self, amount: int, unit: Unit = "rows") -> None:
        self._unit = unit
        self._update(total=amount)

    def advance(self, amount: int = 1) -> None:
        if self._phase is not None:
            self._bars.advance(self._phase, amount)
            self._show()

    def message(self, text: str) -> None:
        from rich.text import Text

        self._bars.console.print(Text(text))

    def event(self, event: RunEvent) -> None:
        if isinstance(event, ReadStarted):
            self._pace = Pace()
            self._pace.began(event)
            self._begin_partitions(event)
        elif isinstance(event, ReadProgress) and self._pace is not None:
            self._pace.reading(event)
            self._read(event)

    def _show(self) -> None:
        pace = self._pace
        if pace is None:
            task = self._bars.tasks[self._bars.task_ids.index(self._phase)] if self._phase is not None else None
            if task is not None and task.total:
                self._update(text=f"{int(task.completed)}/{int(task.total)} {self._unit}")
            return
        _, rows, fetched = pace.rates
        self._update(
            text=f"{human(pace.rows)} rows  {human(rows)} rows/s  {fetched / 1e6:.1f} MB/s  "
            f"lag {human(pace.left)}  {clock(pace.seconds_left)} left"
        )

    def _update(self, **changes: Any) -> None:
        if self._phase is not None:
            self._bars.update(self._phase, **changes)

    # --- partitions

    def _begin_partitions(self, event: ReadStarted) -> None:
        if not self._partitions:
            return
        with self._lock:
            self._totals, self._done = dict(event.totals), dict.fromkeys(event.totals, 0)
            self._show_partitions()

    def _read(self, now: ReadProgress) -> None:
        if not self._partitions:
            return
        with self._lock:
            for outcome in now.ended:
                self._done[TopicPartition(outcome.topic, outcome.partition)] += outcome.end - outcome.start
            self._show_partitions()

    def _show_partitions(self) -> None:
        """Show the partitions with most offsets left, sorted by name."""
        left = sorted(self._totals, key=lambda tp: (self._done[tp] - self._totals[tp], tp))
        wanted = sorted(left[:PARTITIONS_SHOWN])
        if set(wanted) != set(self._shown):
            self._hide_partitions()
            self._shown = {tp: self._bars.add_task(f"  {tp}", total=self._totals[tp], text="") for tp in wanted}
        for tp, task in self._shown.items():
            done, total = self._done[tp], self._totals[tp]
            self._bars.update(task, completed=done, text=f"lag {human(total - done)}")
            if done >= total:
                self._bars.stop_task(task)

    def _hide_partitions(self) -> None:
        for task in self._shown.values():
            self._bars.remove_task(task)
        self._shown = {}

    def _finish(self) -> None:
        self._hide_partitions()
        if self._phase is None:
            return
        done = self._bars.tasks[self._bars.task_ids.index(self._phase)]
        self._update(total=done.total or max(int(done.completed), 1), completed=done.total or 1)
        self._bars.stop_task(self._phase)
