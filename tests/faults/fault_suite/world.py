"""A running suite: the job, its topics and tables, the processes, the schedule's lanes, and what came of everything."""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from confluent_kafka import KafkaException
from deltalake.exceptions import DeltaError

from children import Child, Children
from fault_suite.jobs import Answer, Backfill, JobFolder, describe
from fault_suite.journal import Address, Journal, Partition
from fault_suite.load import Load
from fault_suite.oracle import NOTHING_REMOVED, Findings, Former, Removed, Tables, TopicReader, ahead_of
from fault_suite.schedule import Action, Interruption, Lane

Perform = Callable[["World", Action], None]

MOMENT_SECONDS = 2.0
LONGER_SECONDS = 300
COORDINATOR_SECONDS = 60


def _stack(thread: threading.Thread) -> str:
    frame = sys._current_frames().get(thread.ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else "nothing any more"


@dataclass
class World:
    """allowed: outcomes of commands that need no remark, as `describe` gives them, beside "done" and "killed".
    led_out: refusals that the profile leads to, and whose commands are carried out. watched: group and tables are
    compared all the time; else when the profile asks for it. settled: it has come to its end. name: of its job, where
    it is not the profile's first. others: those of the jobs beside the first, by name; they share what is counted.
    """

    job: JobFolder
    children: Children
    journal: Journal
    reader: TopicReader
    tables: Tables
    seed: int
    allowed: frozenset[str]
    led_out: frozenset[str] = frozenset({"refused: offsets-reserved", "refused: run-ended"})
    watched: bool = True
    settled: bool = False
    findings: Findings = field(default_factory=Findings)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    backfills: list[Backfill] = field(default_factory=list)
    removed: dict[Partition, Removed] = field(default_factory=dict)
    """Records that were deleted from the topics."""
    former: dict[Address, list[Former]] = field(default_factory=dict)
    """Records whose offsets others have now."""
    renewing: set[Partition] = field(default_factory=set)
    """Partitions with other records than before, which the job has not been told to accept yet: the group's offsets are
    of the former ones."""
    load: Load | None = None
    over: threading.Event = field(default_factory=threading.Event)
    failures: list[BaseException] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)
    began_at: float = field(default_factory=lambda: float(int(time.time())))
    """Seconds since 1970; no record is older."""
    name: str = ""
    direct_servers: str = ""
    at_end: Callable[[World], None] = lambda _: None
    """What else its job has to do before it is compared."""
    others: dict[str, World] = field(default_factory=dict)
    _sleepers: list[threading.Thread] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def beside(
        self, name: str, job: JobFolder, reader: TopicReader, tables: Any, *, allowed: Iterable[str], **more: Any
    ) -> World:
        """The same for one more job."""
        own = {"name": name, "job": job, "reader": reader, "tables": tables, "backfills": [], "others": {}}
        world = replace(self, **own, allowed=self.allowed | frozenset(allowed), **more)
        self.others[name] = world
        return world

    @property
    def all(self) -> list[World]:
        return [self, *self.others.values()]

    @property
    def servers(self) -> str:
        """Brokers, as the suite reaches them."""
        return self.direct_servers or self.job.servers

    def remove(self, place: Partition, cut: int) -> None:
        """Records before this offset are about to be deleted. Those that have a row by now must keep it."""
        rows = self.tables.offsets().get(place, {})
        before = self.removed.get(place, NOTHING_REMOVED)
        unlanded = {
            offset for offset in self.reader.records[place] if before.before <= offset < cut and not rows.get(offset)
        }
        self.removed[place] = replace(before, before=max(cut, before.before), unlanded=before.unlanded | unlanded)

    def compact(self, place: Partition) -> frozenset[int]:
        """Records that later ones supersede are about to be removed: which ones. Those that have a row must keep it."""
        rows = self.tables.offsets().get(place, {})
        before, going = self.removed.get(place, NOTHING_REMOVED), self.reader.superseded(place)
        unlanded = frozenset(offset for offset in going - before.compacted if not rows.get(offset))
        self.removed[place] = replace(before, unlanded=before.unlanded | unlanded, compacted=before.compacted | going)
        return going

    def supersede(self, cuts: Mapping[Partition, int]) -> None:
        """Offsets from these on get other records; what had landed stays. No producer writes, and all has been read.

        Rows of a run that has not committed the group's offsets go with its abandonment, which the job's refusal asks
        for; so do those that a replacement has landed which is not done. Backfills over such offsets are asked for no
        more: they were of the former records.
        """
        self.renewing |= set(cuts)
        group, rows = self._group_offsets(), self.tables.contents()
        open_ones = [one for one in self.backfills if not one.done and one.mode == "replace"]
        for place, cut in cuts.items():
            for offset, content in self.reader.records[place].items():
                if offset < cut:
                    continue
                at = (*place, offset)
                stays = offset < group.get(place, 0) and not any(one.covers(at) for one in open_ones)
                again = sum(one.mode == "append" and one.covers(at) for one in self.backfills)
                landed = content in rows.get(at, ())
                self.former.setdefault(at, []).append(Former(content, int(stays and landed), 1 + again))
            before = self.removed.get(place, NOTHING_REMOVED)
            self.removed[place] = Removed(
                min(before.before, cut),
                *(frozenset(o for o in of if o < cut) for of in (before.unlanded, before.compacted)),
            )
            self.journal.forget(place, cut)
        self.backfills[:] = [one for one in self.backfills if not any(one.reaches(*cut) for cut in cuts.items())]

    def _group_offsets(self) -> dict[Partition, int]:
        """Those of the job's group, once its coordinator is there; none where it stays away, which leaves open what had
        landed."""
        deadline = time.monotonic() + COORDINATOR_SECONDS
        while time.monotonic() < deadline:
            with suppress(KafkaException):
                return self.reader.group_offsets(self.job.group)
            time.sleep(1)
        return {}

    def runs_of(self, mode: str) -> set[str]:
        """The runs that carried out backfills of a mode."""
        return {run for one in self.backfills if one.mode == mode for run in one.runs}

    # --- what came of it

    def note(self, kind: str, answer: Answer | None, *, fault: bool = False, allowed: Iterable[str] = ()) -> str:
        """Count an outcome; returns it in a word or two. fault: something was injected."""
        outcome = describe(answer)
        kind = f"{self.name}: {kind}" if self.name else kind
        with self._lock:
            self.outcomes[kind, outcome] += 1
            self.findings.faults += fault
            self.history.append(f"{time.monotonic() - self.began:6.1f} s  {kind}: {outcome}")
            if outcome not in {"done", "killed", *self.allowed, *allowed}:
                error = (answer or {}).get("error", {}).get("error", answer)
                self.findings.note("unexpected", 1, f"{kind}: {outcome}: {error}")
        return outcome

    def injected(self, kind: str, outcome: str = "injected") -> None:
        """Count a fault that is none of a driver's."""
        with self._lock:
            self.outcomes[kind, outcome] += 1
            self.findings.faults += 1
            self.history.append(f"{time.monotonic() - self.began:6.1f} s  {kind}: {outcome}")

    # --- drivers

    def drive(
        self,
        kind: str,
        command: dict[str, Any],
        interruption: Interruption | None = None,
        *,
        own_jvm: bool = False,
        then: Callable[[Answer | None], None] = lambda _: None,
    ) -> None:
        """One driver. A suspended one wakes up in a thread of its own while the lane goes on. then: with its answer."""
        if interruption is not None and interruption.at is not None:
            command = command | {"at": interruption.at, "signal": interruption.signal}
        child = self.job.start(self.children, own_jvm=own_jvm, **command)
        if interruption is None or not self._interrupt(child, interruption):
            self._end(kind, child, interruption, then)
            return
        thread = threading.Thread(
            target=self._guarded, args=(self._sleep, kind, child, interruption, then), name=kind, daemon=True
        )
        self._sleepers.append(thread)
        thread.start()

    def _interrupt(self, child: Child, interruption: Interruption) -> bool:
        """Whether it is suspended now."""
        if interruption.at is not None:
            return interruption.signal == "SIGSTOP" and child.stopped()
        child.ready()
        time.sleep(interruption.after)
        if interruption.signal == "SIGSTOP":
            return child.stop()
        child.kill()
        return False

    def _sleep(
        self, kind: str, child: Child, interruption: Interruption, then: Callable[[Answer | None], None]
    ) -> None:
        with self._lock:
            self.findings.faults += 1
        self.over.wait(interruption.asleep)
        child.wake()
        self._end(kind, child, interruption, then)

    def _end(
        self, kind: str, child: Child, interruption: Interruption | None, then: Callable[[Answer | None], None]
    ) -> None:
        answer = child.outcome()
        child.end()
        if answer is None and not (interruption is not None and interruption.signal == "SIGKILL"):
            answer = {"exit": -1, "error": {"error": {"kind": "died by itself", "message": child.tail()}}}
        self.note(kind, answer, fault=answer is None)
        then(answer)

    def run(self, kind: str, command: dict[str, Any], *, allowed: Iterable[str] = ()) -> tuple[str, Answer]:
        """One driver that nothing interrupts: what came of it in a word or two, and its answer."""
        child = self.job.start(self.children, **command)
        answer = child.outcome()
        child.end()
        assert answer is not None, f"{kind} died by itself:\n{child.tail()}"
        return self.note(kind, answer, allowed=allowed), answer

    # --- everything at once

    def go(
        self,
        seconds: float,
        lanes: Iterable[Lane],
        table: dict[str, Perform],
        reached: Callable[[World], bool] = lambda _: True,
    ) -> None:
        """Perform the lanes' actions for so long, and at least until a fault has been injected and what else a run must
        have is `reached`: a busy machine takes longer, up to `LONGER_SECONDS`. All drivers have ended when it returns.
        Raises what a lane raised."""
        watch = threading.Thread(target=self._guarded, args=(self._watch,), name="moments", daemon=True)
        threads = [watch] if self.watched else []
        for lane in lanes:
            work = threading.Thread(
                target=self._guarded, args=(self._perform, lane, table), name=lane.name, daemon=True
            )
            threads.append(work)
        for thread in threads:
            thread.start()
        began = time.monotonic()
        while not self.over.wait(max(0.5, began + seconds - time.monotonic())):
            if (self.findings.faults and reached(self)) or time.monotonic() - began > seconds + LONGER_SECONDS:
                break
        self.over.set()
        hanging: list[Exception] = []
        for thread in [*threads, *self._sleepers]:
            thread.join(0 if hanging else 300)
            if thread.is_alive():
                hanging.append(AssertionError(f"{thread.name} does not end, it is in\n{_stack(thread)}"))
        failures = [one for one in self.failures if isinstance(one, Exception)] + hanging
        if failures:
            raise ExceptionGroup("lanes failed", failures)

    def _guarded(self, work: Callable[..., None], *arguments: Any) -> None:
        try:
            work(*arguments)
        except BaseException as error:
            self.failures.append(error)
            self.over.set()

    def _perform(self, lane: Lane, table: dict[str, Perform]) -> None:
        for action in lane.actions(self.seed):
            if self.over.is_set():
                return
            table[action.what](self.others[lane.job] if lane.job else self, action)
            self.over.wait(lane.pause)

    # --- moments

    def _watch(self) -> None:
        while not self.over.wait(MOMENT_SECONDS):
            with suppress(
                KafkaException, OSError, DeltaError
            ):  # a coordinator that is away; a file that VACUUM deleted
                for world in self.all:
                    world.moment()

    def moment(self) -> None:
        """The group's offsets first, the tables afterwards: whatever is below the first has to be in the second."""
        group = self.reader.group_offsets(self.job.group)
        rows = self.tables.offsets()
        group = {tp: offset for tp, offset in group.items() if tp not in self.renewing}
        self.reader.read_to(group)
        missing = ahead_of(group, self.reader.records, rows, self.removed)
        self.findings.moments += 1
        seconds = time.monotonic() - self.began
        self.findings.note(
            "ahead", len(missing), {"at": f"{seconds:.1f} s"} | {str(tp): at[:5] for tp, at in missing.items()}
        )

    def choose(self, action: Action) -> random.Random:
        """The generator for what an action leaves open."""
        return random.Random(action.seed)
