"""Walks through every state that the model can reach, breadth first: each process' next step, and its crash."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from commit_model.processes import BACKFILL, Process, step
from commit_model.world import RECORDS, World
from kseg.etl.errors import Refused
from kseg.etl.planning.backfill import run_id_of

MOST_STEPS = 200


@dataclass(frozen=True)
class Limits:
    """starts: the processes that may be started, in this order, each at any moment. crashes: at most so many.

    grows: a record comes to each log, at any moment.
    """

    starts: Sequence[str]
    crashes: int
    grows: bool = True


@dataclass
class Walk:
    """What was walked through. wrong: what a state violates, with the actions that lead there."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    ends: int = 0
    seconds: float = 0.0
    wrong: list[tuple[str, list[str]]] = field(default_factory=list)
    reserved: int = 0

    def __str__(self) -> str:
        return (
            f"{self.states} states, {self.transitions} transitions, {self.depth} deep, {self.ends} of ledger, tables "
            f"and group that were led to their end, {self.seconds / 60:.1f} minutes"
        )


def walk(limits: Limits, *, most_wrong: int = 1) -> Walk:
    """Every state within the limits. Ends early when so many wrong ones were found."""
    began, found = time.monotonic(), Walk()
    first = World()
    paths: dict[bytes, tuple[bytes, str]] = {}
    seen, ended = {first.key()}, set[bytes]()
    waiting: deque[tuple[World, int, int]] = deque([(first, 0, 0)])
    while waiting and len(found.wrong) < most_wrong:
        world, started, depth = waiting.popleft()
        key = world.key() + bytes([started])
        found.states += 1
        found.depth = max(found.depth, depth)
        for wrong in [*world.faults(), *_no_way_out(world, limits, ended, found)]:
            found.wrong.append((wrong, _path(paths, key)))
        for action, after, now_started in _next(world, started, limits, found):
            found.transitions += 1
            next_key = after.key() + bytes([now_started])
            if next_key not in seen:
                seen.add(next_key)
                paths[next_key] = key, action
                waiting.append((after, now_started, depth + 1))
    found.seconds = time.monotonic() - began
    return found


def _next(world: World, started: int, limits: Limits, found: Walk) -> Iterator[tuple[str, World, int]]:
    if started < len(limits.starts):
        kind = limits.starts[started]
        for process in _processes(world, kind):
            yield f"start {kind}", replace(world, processes=(*world.processes, process)), started + 1
    if limits.grows and sum(world.ends) < RECORDS * len(world.ends):
        yield "records come", replace(world, ends=(RECORDS,) * len(world.ends)), started
    for number, process in enumerate(world.processes):
        others = world.processes[:number] + world.processes[number + 1 :]
        if world.crashes < limits.crashes:
            yield f"{process.kind} crashes", replace(world, processes=others, crashes=world.crashes + 1), started
        try:
            after, now = step(world, process)
        except Refused as refused:
            if refused.code not in ("offsets-reserved", "configuration-changed"):
                found.wrong.append((f"{process.kind} refuses: {refused}", []))
            found.reserved += 1
            yield f"{process.kind} refuses", replace(world, processes=others), started
            continue
        processes = others if now is None else (*world.processes[:number], now, *world.processes[number + 1 :])
        yield f"{process.kind}: {process.at}", replace(after, processes=processes), started


def _processes(world: World, kind: str) -> Iterator[Process]:
    """A new process of a kind; one that abandons for each run that it may."""
    if kind != "abandon":
        yield Process(kind)
        return
    for run in world.ledger.unfinished_runs():
        yield Process(kind, chain=run.chain)


def _no_way_out(world: World, limits: Limits, ended: set[bytes], found: Walk) -> Iterator[str]:
    """From here on alone: the backfill, if it was begun, and the job lead to a state in which all is complete. A run
    that has landed rows by another job file is completed as it was planned."""
    alone = replace(world, processes=(), crashes=0)
    if (key := alone.key()) in ended:
        return
    ended.add(key)
    found.ends += 1
    chain = run_id_of(BACKFILL, alone.ledger)
    begun = alone.ledger.unfinished(chain) is not None
    job = "changed" if "changed" in limits.starts else "ingest"
    for kind in (["backfill"] if begun else []) + [job, job]:
        try:
            try:
                alone = _to_its_end(alone, Process(kind))
            except Refused as refused:
                if refused.code != "configuration-changed":
                    raise
                alone = _to_its_end(_to_its_end(alone, Process("finish")), Process(kind))
        except Refused as refused:
            yield f"no way out: {kind} refuses: {refused}"
            return
    wrong = alone.faults()
    if wrong or not alone.complete():
        yield f"led to its end, something is missing: {wrong}, group {alone.group}, tables {alone.tables}"


def _to_its_end(world: World, process: Process | None) -> World:
    for _ in range(MOST_STEPS):
        if process is None:
            return world
        world, process = step(world, process)
    raise AssertionError("a process never ends")


def _path(paths: dict[bytes, tuple[bytes, str]], key: bytes) -> list[str]:
    actions: list[str] = []
    while key in paths:
        key, action = paths[key]
        actions.insert(0, action)
    return actions
