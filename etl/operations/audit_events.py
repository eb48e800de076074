"""Compare asset events of a job's runs with its ledger. Pure functions of events and the ledger's state.

An event's `extra` is `{"kseg": {"version": 1, "job", "run", "mode", "interval", "ranges", "counts", "tables", "group",
"report"}}`, from the run's report. A run that landed in several tables has an identical event for each of them.

    kind                    what
    ----------------------  -----------------------------------------------------------------------------------------
    event-unknown-run       its run is not in the ledger
    event-of-abandoned-run  its run was abandoned: the rows were removed
    event-contradicts       other ranges, counts or versions than in the ledger, or in another event of the run
    event-duplicate         a run has more events than tables that it landed in
    event-missing           a run in the ledger has no event, and there are events of earlier runs
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import AddressValue, ConfigurationError
from kseg.etl.ledger.ranges import OffsetSet
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
    by_run: dict[str, list[Mapping[str, Any]]] = {}
    for event in events:
        if event.get("job") == state.job and event.get("run"):
            by_run.setdefault(str(event["run"]), []).append(event)
    found: list[Difference] = []
    for run_id, of_run in by_run.items():
        run = state.runs.get(run_id)
        if run is None:
            if not _archived(state):
                found.append(_unknown(run_id))
        elif run.abandoned:
            found.append(_abandoned(run_id))
        else:
            found += _contradictions(run, of_run)
    return found + list(_missing(by_run.keys(), state, now))


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


def _contradictions(run: RunState, events: Sequence[Mapping[str, Any]]) -> Iterable[Difference]:
    remedy = "trust the ledger; find out what wrote the event, and run again what has read it"
    address: dict[str, AddressValue] = {"run": run.run_id}
    if any(one != events[0] for one in events[1:]):
        yield Difference("event-contradicts", f"events of run {run.run_id} differ", remedy, address)
    if len(events) > max(1, len(run.landed)):
        yield Difference(
            "event-duplicate",
            f"{len(events)} events name run {run.run_id}, which landed in {len(run.landed)} table(s)",
            "DAGs that are scheduled on the asset ran more often than needed; nothing has landed twice",
            address,
        )
    for event in events:
        for what in _differing(run, event):
            yield Difference("event-contradicts", f"the event of run {run.run_id}: {what}", remedy, address)


def _differing(run: RunState, event: Mapping[str, Any]) -> Iterable[str]:
    if event.get("mode") not in (None, run.mode):
        yield f"its mode is {event['mode']}, in the ledger {run.mode}"
    asked = json.loads(run.plan.asked) if run.plan.asked else {}
    if event.get("interval") and asked.get("interval") and not _same_times(event["interval"], asked["interval"]):
        yield f"its interval is {event['interval']}, in the ledger {asked['interval']}"
    if not run.archived and not event.get("ranges_left_out"):
        here, there = _offsets(event.get("ranges") or ()), {tp: o for tp, o in run.plan.offsets().items() if o}
        for tp in sorted(here.keys() | there.keys()):
            if here.get(tp) != there.get(tp):
                yield f"{tp.topic}-{tp.partition} has {here.get(tp)}, in the ledger {there.get(tp)}"
    if not run.archived and run.accounted is not None:
        known = report_of("", run, status="done").counts
        counts = event.get("counts") or {}
        for name in _COUNTS:
            if name in counts and name in known and counts[name] != known[name]:
                yield f"{name} is {counts[name]}, in the ledger {known[name]}"
    for table in event.get("tables") or ():
        commit = run.landed.get(str(table.get("path")))
        if commit is None:
            yield f"it names table {table.get('path')}, in which the run has not landed"
        elif commit.version >= 0 and (table.get("version"), table.get("rows")) != (commit.version, commit.rows):
            yield (
                f"{table['path']} has version {table.get('version')} with {table.get('rows')} rows, in the ledger "
                f"{commit.version} with {commit.rows}"
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
