"""Drivers that are killed and suspended, at steps and at random times: runs, backfills that overlap them, maintenance.

Appending backfills read partition 0 of each topic, replacing ones the others: so how many rows an offset must have does
not depend on their order.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from confluent_kafka import KafkaException

from fault_suite.jobs import Answer, Backfill
from fault_suite.schedule import Action, Lane
from fault_suite.world import World
from run_steps import steps_of

MOST_OPEN = 3
"""So many backfills are under way at most: a dead one keeps the frontier from moving on."""

INTERVAL_SECONDS = 15

ALLOWED = frozenset({"another run is active", "refused: offsets-reserved"})
"""What the schedule leads to by itself: two drivers of one chain; a backfill over what a dead run has planned."""

ENDED = frozenset(
    f"refused: {code}"
    for code in ("run-ended", "run-abandoning", "offsets-committed", "no-such-run", "rows-would-be-lost")
)
"""What `kseg repair RUN` says where another driver was there before, or where retention or compaction has removed the
run's records."""

INTERVALS = Lane("intervals", {"interval": 8, "maintain": 1}, interrupted=0.4, job="intervals", pause=0.5)
DECODED = Lane(
    "decoded",
    {"ingest": 5, "backfill": 2, "repeat a backfill": 1, "maintain": 1},
    interrupted=0.4,
    job="decoded",
    steps=steps_of("typed"),
    pause=0.5,
)
"""Of the jobs beside the first."""

LANES = (
    Lane("scheduled", {"ingest": 30, "ingest in a JVM of its own": 1}, wrong_clocks=0.15),
    Lane(
        "others",
        {"backfill": 6, "repeat a backfill": 4, "maintain": 3, "end an unfinished run": 2},
        interrupted=0.5,
        wrong_clocks=0.15,
    ),
    INTERVALS,
)


def ingest(world: World, action: Action) -> None:
    world.drive(action.kind, {"take_over": action.take_over, "clock": action.clock}, action.interruption)


def ingest_in_own_jvm(world: World, action: Action) -> None:
    world.drive(action.kind, {"take_over": action.take_over}, action.interruption, own_jvm=True)


def backfill(world: World, action: Action) -> None:
    """A new one over random offsets of one topic, unless there are enough of them."""
    if sum(not one.done for one in world.backfills) >= MOST_OPEN:
        return
    choice, mode = world.choose(action), action.parameters["mode"]
    topic = choice.choice(sorted(world.job.topics))
    ends = {number: end for (name, number), end in world.reader.ends().items() if name == topic}
    partitions = len(ends)  # one may be added meanwhile
    try:
        landed = world.reader.group_offsets(world.job.group)
    except KafkaException:  # its coordinator is away
        return
    mine = [0] if mode == "append" else range(1, partitions) if mode == "replace" else range(partitions)
    if mode == "append":
        # What has not landed yet, appending lands for the first time. Without an offset of the group it is below 0.
        ends = {number: max(0, min(end, landed.get((topic, number), 0))) for number, end in ends.items()}
    ranges = []
    for number in mine:
        start, end = sorted(choice.randrange(ends[number] + 1) for _ in range(2))
        if start < end and (mode != "missing" or choice.random() < 0.6):
            ranges.append((topic, number, start, end))
    if ranges:
        label = f"again-{action.seed}" if mode == "append" else None
        world.backfills.append(one := Backfill(mode, ranges, label))
        _pursue(world, action, one)


def repeat_backfill(world: World, action: Action) -> None:
    """One that was asked for before: done or not, it must not land anything twice."""
    if world.backfills:
        _pursue(world, action, world.choose(action).choice(world.backfills))


def interval(world: World, action: Action) -> None:
    """A data interval since the load began, in any order, closed or not; the same one again must change nothing."""
    elapsed = int((time.time() - world.began_at) / INTERVAL_SECONDS)
    text = interval_text(world, world.choose(action).randrange(elapsed + 1))
    known = next((one for one in world.backfills if one.interval == text), None)
    if known is None:
        world.backfills.append(known := Backfill("missing", [], interval=text))
    _pursue(world, action, known)


def interval_text(world: World, number: int) -> str:
    """The interval of this number, from 0."""
    start = datetime.fromtimestamp(world.began_at, UTC) + number * timedelta(seconds=INTERVAL_SECONDS)
    return f"{start.isoformat()}/{(start + timedelta(seconds=INTERVAL_SECONDS)).isoformat()}"


def _pursue(world: World, action: Action, one: Backfill) -> None:
    def ended(answer: Answer | None) -> None:
        if answer is not None and answer["exit"] == 0:
            one.answered(answer)

    command = one.command | {"take_over": action.take_over, "clock": action.clock}
    mode = "" if one.interval is not None else f" ({one.mode})"
    world.drive(f"{action.what}{mode}{action.how}", command, action.interruption, then=ended)


def maintain(world: World, action: Action) -> None:
    """All of it, as short as VACUUM may be while runs write; nothing before the job's first run."""
    if world.job.state() is None:
        world.over.wait(1)
        return
    take_over = ["--take-over"] if action.take_over else []
    words = ["maintain", "JOB", "--optimize", "--ledger", "--vacuum", "0s", "--allow-short-retention", *take_over]
    world.drive(action.kind, world.job.line(*words) | {"clock": action.clock}, action.interruption)


def end_unfinished_run(world: World, action: Action) -> None:
    """`kseg repair --finish` or `--abandon`.

    A replacement is only finished: the rows that it took away come back with its repetition. So is a backfill that is
    accounted: another run may have committed the group's offsets over its rows. After either the group would rightly be
    ahead of the table until the next run.
    """
    state = world.job.state()
    unfinished = sorted(state.unfinished_runs(), key=lambda run: run.run_id) if state is not None else []
    if not unfinished:
        return
    choice = world.choose(action)
    run = choice.choice(unfinished)
    only_finished = run.plan.mode == "backfill-replace" or run.accounted is not None
    carry_out = "--finish" if only_finished or choice.random() < 0.5 else "--abandon"
    line = world.job.line("repair", "JOB", carry_out, run.run_id, *(["--take-over"] if action.take_over else []))
    world.run(f"repair {carry_out}", line, allowed=ENDED)


PERFORM: dict[str, Any] = {
    "ingest": ingest,
    "ingest in a JVM of its own": ingest_in_own_jvm,
    "backfill": backfill,
    "repeat a backfill": repeat_backfill,
    "interval": interval,
    "maintain": maintain,
    "end an unfinished run": end_unfinished_run,
}
