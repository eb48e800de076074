"""The end of a suite: commands end everything that was left open, and then it is compared."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import Any

from fault_suite.drivers import INTERVAL_SECONDS, interval_text
from fault_suite.jobs import Answer, Backfill
from fault_suite.journal import Address
from fault_suite.oracle import compare
from fault_suite.ways_out import commands_of
from fault_suite.world import World
from kseg.etl.errors import ExitCode

MOST_TRIES = 40
MOST_DEEP = 3
SHOW_ONLY = ("verify", "status", "report")


def settle(world: World) -> None:
    """Carry out every backfill and every run that is still open, and compare what there is with what has to be."""
    for one in world.all:
        _settle(one)


def _settle(world: World) -> None:
    await_markers(world)
    _add_missing_intervals(world)
    for one in world.backfills:
        one.answered(until_done(world, "at the end: backfill", one.command))
    for run_id in _unfinished(world):
        until_done(world, "at the end: repair --finish", world.job.line("repair", "JOB", "--finish", run_id))
    for _ in range(MOST_TRIES):
        answer = until_done(world, "at the end: ingest", {})
        if answer["report"]["status"] == "nothing-to-do":
            break
    world.at_end(world)
    ends = world.reader.ends()
    world.reader.read_to(ends)
    rows = world.tables.contents()
    again: Counter[Address] = Counter()
    for one in (one for one in world.backfills if one.mode == "append"):
        for topic, partition, start, end in one.ranges:
            offsets = world.reader.records[topic, partition]
            again.update((topic, partition, offset) for offset in offsets if start <= offset < end)
    acknowledged = {at: content for at, content in world.journal.acknowledged().items() if at[:2] in ends}
    former = {at: ones for at, ones in world.former.items() if at[:2] in ends}  # jobs beside it share this
    compare(world.findings, acknowledged, world.reader.records, rows, again, world.removed, former)
    group = world.reader.group_offsets(world.job.group)
    behind = {tp: (group.get(tp, 0), end) for tp, end in ends.items() if group.get(tp, 0) != end}
    world.findings.note("unexpected", len(behind), f"the group's offsets and the ends: {behind}")
    world.moment()


def _add_missing_intervals(world: World) -> None:
    """All intervals up to now, in an order that the seed decides: together they have every record."""
    known = {one.interval for one in world.backfills} - {None}
    if not known:
        return
    every = range(int((time.time() - world.began_at) / INTERVAL_SECONDS) + 1)
    missing = [text for text in (interval_text(world, number) for number in every) if text not in known]
    world.backfills += [Backfill("missing", [], interval=text) for text in missing]
    random.Random(world.seed).shuffle(world.backfills)


def until_done(world: World, kind: str, command: dict[str, Any]) -> Answer:
    """Run a command until it succeeds, and what its refusals name in between. A lease is waited for.

    Raises AssertionError where there is no way out.
    """
    refusals: list[str] = []
    for _ in range(MOST_TRIES):
        outcome, answer = patiently(world, kind, command)
        if outcome == "done":
            return answer
        assert "error" in answer, f"{kind}: {answer}"
        error = answer["error"]["error"]
        refusals.append(f"{outcome}: {error['message']}")
        follow(world, error)
    raise AssertionError(f"{kind} never ends: {refusals[-3:]}")


def follow(world: World, error: dict[str, Any], depth: int = 0) -> None:
    """Run the first command that a refusal names and that succeeds; where it refuses, what that names.

    Raises AssertionError where nothing leads out.
    """
    tried = []
    by_hand(world, error)
    for words in commands_of(error, str(error["address"].get("table", ""))):
        if words[0] in SHOW_ONLY:
            continue
        shown = " ".join(word for word in words if word.islower() or word.startswith("--"))
        line = {} if words == ["ingest", "JOB"] else world.job.line(*words)
        outcome, answer = patiently(world, f"as {error.get('code')} says: {shown}", line)
        tried.append((words, outcome))
        if outcome == "done":
            return
        if answer["exit"] == ExitCode.REFUSED and depth < MOST_DEEP:
            follow(world, answer["error"]["error"], depth + 1)
            return
    raise AssertionError(f"no command leads out of {error}: {tried}")


def patiently(world: World, kind: str, command: dict[str, Any]) -> tuple[str, Answer]:
    """A command, again and again while another run is active or something is not available."""
    for _ in range(MOST_TRIES):
        outcome, answer = world.run(kind, command, allowed=["another run is active", "try again", *world.led_out])
        if answer["exit"] not in (ExitCode.RETRIABLE, ExitCode.ANOTHER_RUN_ACTIVE):
            break
        time.sleep(1)
    return outcome, answer


def by_hand(world: World, error: dict[str, Any]) -> None:
    """What a refusal asks for that is no command: a ledger is moved away before it is made anew."""
    if error.get("code") in ("ledger-older", "ledger-older-than-table"):
        ledger = world.job.ledger
        ledger.rename(ledger.with_name(f"ledger-moved-away-{time.monotonic_ns()}"))


def _unfinished(world: World) -> list[str]:
    state = world.job.state()
    return sorted(run.run_id for run in state.unfinished_runs()) if state is not None else []


def await_markers(world: World) -> None:
    """Until the last stable offsets are the ends of the logs: no transaction is open any more."""
    deadline = time.monotonic() + 120
    while world.reader.ends() != world.reader.ends(stable=False):
        assert time.monotonic() < deadline, "a transaction stays open"
        time.sleep(0.5)
