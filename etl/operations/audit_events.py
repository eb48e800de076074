"""Compare asset events of a job's runs with its ledger. Pure functions of events and the ledger's state.

An event's `extra` is `{"kseg": {"version": 1, "job", "run", "mode", "interval", "ranges", "counts", "tables", "group",
"report"}}`, from the run's report. A run that landed in several tables has an identical event for each of them.

The report of a drain is the sum of its runs, whose ids are `runs`. A retry's event has those of earlier tries that have
none in `earlier`.

    kind                    what
    ----------------------  -----------------------------------------------------------------------------------------
    event-unknown-run       its run is not in the ledger
    event-of-abandoned-run  its run was abandoned: the rows were removed
    event-contradicts       other ranges, counts or versions than in the ledger, or in another event of the run
    event-duplicate         a run has more events than tables that it landed in
    event-missing           a run in the ledger has no event, and there are events of earlier runs
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import AddressValue, ConfigurationError
from kseg.etl.ledger.ranges import OffsetSet, offsets_of
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.run.report_from_ledger import report_of

EXTRA_KEY = "kseg"
EXTRA_VERSION = 1

GRACE = timedelta(minutes=10)
"""How long after a run's end its event may still arrive: it is not reported as missing before."""

_COUNTS = ("records", "control", "aborted", "absent", "quarantined", "offsets", "rows_in", "rows_out", "late")


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference. address: topic, partition, table, run …, by name."""

    kind: str
    message: str
    remedy: str
    address: Mapping[str, AddressValue] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return {
            "kind": self.kind,
            "message": self.message,
            "remedy": self.remedy,
            "address": dict(self.address),
        }


def parse_events(text: str) -> list[Mapping[str, Any]]:
    """Parse a JSON list of extras, each with or without the key `kseg` around it. Other extras are ignored.

    Raises:
        ConfigurationError: the text is not such a list, or an event has a version that this release does not know.
    """
    remedy = "write a JSON list of the events' extras"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ConfigurationError.of("--events", f"is not JSON: {error}", remedy) from None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ConfigurationError.of("--events", "is not a list of mappings", remedy)
    events = [one.get(EXTRA_KEY, one if "run" in one else None) for one in found]
    ours: list[Mapping[str, Any]] = [one for one in events if isinstance(one, dict)]
    for one in ours:
        if one.get("version") != EXTRA_VERSION:
            problem = f"has an event of version {one.get('version')!r}"
            raise ConfigurationError.of("--events", problem, f"this release knows version {EXTRA_VERSION}")
    return ours


def compare_events(events: Sequence[Mapping[str, Any]], state: JobState, now: datetime) -> list[Difference]:
    """Every difference between the events of this job and its ledger. Events of other jobs are ignored."""
    by_runs: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for event in _single(events):
        if event.get("job") == state.job and event.get("run"):
            by_runs.setdefault(tuple(map(str, event.get("runs") or [event["run"]])), []).append(event)
    found: list[Difference] = []
    for run_ids, of_runs in by_runs.items():
        runs = [run for run_id in run_ids if (run := state.runs.get(run_id)) is not None]
        abandoned = [run.run_id for run in runs if run.abandoned]
        found += map(_abandoned, abandoned)
        if len(runs) < len(run_ids):
            unknown = [run_id for run_id in run_ids if run_id not in state.runs]
            found += [] if _archived(state) else map(_unknown, unknown)
        elif not abandoned:
            found += _contradictions(runs, of_runs)
    return found + list(_missing(itertools.chain(*by_runs), state, now))


def _single(events: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    """The landings that events tell of: each event's own, and those of earlier tries of its task."""
    for event in events:
        yield from event.get("earlier") or ()
        yield {name: told for name, told in event.items() if name != "earlier"}


def _archived(state: JobState) -> bool:
    """Whether old incremental runs have been reduced to sums: the ledger then no longer has their run ids."""
    return state.archive.runs > 0


def _unknown(run_id: str) -> Difference:
    return Difference(
        "event-unknown-run",
        f"an event names run {run_id}, which is not in the ledger",
        "the ledger is an older one, or the event comes from a job of the same name with another ledger",
        {"run": run_id},
    )


def _abandoned(run_id: str) -> Difference:
    return Difference(
        "event-of-abandoned-run",
        f"an event names run {run_id}, whose rows have been removed since",
        "run again what has read its rows; a later run has landed, or will land, its offsets",
        {"run": run_id},
    )


def _contradictions(runs: Sequence[RunState], events: Sequence[Mapping[str, Any]]) -> Iterable[Difference]:
    """runs: one, or those of a drain."""
    remedy = "trust the ledger; find out what wrote the event, and run again what has read it"
    last = runs[-1].run_id
    name = f"run {last}" if len(runs) == 1 else f"the {len(runs)} runs up to {last}"
    address: dict[str, AddressValue] = {"run": last}
    if any(one != events[0] for one in events[1:]):
        yield Difference("event-contradicts", f"events of {name} differ", remedy, address)
    tables = {path for run in runs for path in run.landed}
    if len(events) > max(1, len(tables)):
        yield Difference(
            "event-duplicate",
            f"{len(events)} events name {name}, which landed in {len(tables)} table(s)",
            "DAGs that are scheduled on the asset ran more often than needed; nothing has landed twice",
            address,
        )
    for event in events:
        for what in _differing(runs, event):
            yield Difference("event-contradicts", f"the event of {name}: {what}", remedy, address)


def _differing(runs: Sequence[RunState], event: Mapping[str, Any]) -> Iterable[str]:
    first = runs[0]  # what a drain's runs were asked for is the same
    archived = any(run.archived for run in runs)
    if event.get("mode") not in (None, first.mode):
        yield f"its mode is {event['mode']}, in the ledger {first.mode}"
    asked = json.loads(first.plan.asked) if first.plan.asked else {}
    if event.get("interval") and asked.get("interval") and not _same_times(event["interval"], asked["interval"]):
        yield f"its interval is {event['interval']}, in the ledger {asked['interval']}"
    if not archived and not event.get("ranges_left_out"):
        here, there = _offsets(event.get("ranges") or ()), offsets_of([one for run in runs for one in run.plan.ranges])
        for tp in sorted(here.keys() | there.keys()):
            if (here.get(tp) or None) != (there.get(tp) or None):
                yield f"{tp.topic}-{tp.partition} has {here.get(tp)}, in the ledger {there.get(tp)}"
    if not archived and all(run.accounted is not None for run in runs):
        known: Counter[str] = Counter()
        for run in runs:
            known.update(report_of("", run, status="done").counts)
        counts = event.get("counts") or {}
        for name in _COUNTS:
            if name in counts and name in known and counts[name] != known[name]:
                yield f"{name} is {counts[name]}, in the ledger {known[name]}"
    for table in event.get("tables") or ():
        commits = [commit for run in runs if (commit := run.landed.get(str(table.get("path")))) is not None]
        if not commits:
            yield f"it names table {table.get('path')}, in which the run has not landed"
            continue
        version, rows = commits[-1].version, sum(commit.rows for commit in commits)
        known_to_delta = all(commit.version >= 0 for commit in commits)
        if known_to_delta and (table.get("version"), table.get("rows")) != (version, rows):
            yield (
                f"{table['path']} has version {table.get('version')} with {table.get('rows')} rows, in the ledger "
                f"{version} with {rows}"
            )


def _same_times(one: Sequence[str], other: Sequence[str]) -> bool:
    from kseg.etl.config.times import parse_instant

    try:
        return [parse_instant(text) for text in one] == [parse_instant(text) for text in other]
    except ValueError:
        return False


def _offsets(ranges: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, OffsetSet]:
    intervals: dict[TopicPartition, list[tuple[int, int]]] = {}
    for one in ranges:
        tp = TopicPartition(str(one["topic"]), int(one["partition"]))
        intervals.setdefault(tp, []).append((int(one["start"]), int(one["end"])))
    return {tp: offsets for tp, of_one in intervals.items() if (offsets := OffsetSet.of(of_one))}


def _missing(with_event: Iterable[str], state: JobState, now: datetime) -> Iterable[Difference]:
    """Runs without an event, from the first run that has one: the caller may have only the newest events."""
    known = set(with_event)
    since = False
    for run in state.runs.values():
        since = since or run.run_id in known
        if not since or run.run_id in known or not run.finished or not run.landed:
            continue
        if run.ended_at is not None and now - run.ended_at < GRACE:
            continue
        yield Difference(
            "event-missing",
            f"run {run.run_id} ({run.mode}) has landed, and has no event",
            "DAGs that are scheduled on the table's asset did not run for it: run them; a run by hand has no event",
            {"run": run.run_id},
        )
