"""The account of a run: two equations that must hold before the group's offsets may move.

    offsets   data + control + aborted + dead-lettered + absent = the range's length         before the first commit
    rows      rows written by the tasks = rows in the tables' commits                         after the last commit

A filter in the transform is legal, so rows into it and rows out of it are recorded and never compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.logs import Logs
from kseg.etl.source.range_result import RangeResult


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """What was read for a plan: one account a planned range, in the plan's order.

    gaps: absent offsets seen in topics that are not compacted. lost: offsets that could not be read any more.
    damaged: offsets that stand in the quarantine; damage_told: whether these are all of them.
    """

    accounts: tuple[ev.RangeAccount, ...]
    gaps: tuple[OffsetRange, ...]
    lost: tuple[OffsetRange, ...]
    rows_in: int
    damaged: tuple[OffsetRange, ...] = ()
    damage_told: bool = True

    @property
    def unbalanced(self) -> ev.RangeAccount | None:
        return next((account for account in self.accounts if not account.balanced), None)


def account_for(plan: ev.RunPlan, outcomes: Iterable[RangeResult], logs: Logs) -> ReadCounts:
    """Add the tasks' outcomes up to the plan's ranges."""
    sums: dict[ev.PlannedRange, ev.RangeCounts] = dict.fromkeys(plan.ranges, ev.RangeCounts())
    by_partition: dict[tuple[str, int], list[ev.PlannedRange]] = {}
    for planned in plan.ranges:
        by_partition.setdefault((planned.topic, planned.partition), []).append(planned)
    gaps: list[OffsetRange] = []
    lost: list[OffsetRange] = []
    damaged: list[OffsetRange] = []
    damage_told = True
    for outcome in outcomes:
        planned = next(r for r in by_partition[outcome.topic, outcome.partition] if r.start <= outcome.start < r.end)
        sums[planned] += ev.RangeCounts(
            outcome.data, outcome.control, outcome.aborted, outcome.unreadable, outcome.absent, outcome.late
        )
        gaps += [OffsetRange(outcome.topic, outcome.partition, first, last) for first, last in outcome.gaps]
        damaged += [
            OffsetRange(outcome.topic, outcome.partition, damage.first, damage.last) for damage in outcome.damages
        ]
        damage_told = damage_told and outcome.damage_count == len(outcome.damages)
        lost += [OffsetRange(outcome.topic, outcome.partition, loss.first, loss.last) for loss in outcome.lost]
    compacted = logs.compacted({gap.topic for gap in gaps}) if gaps else frozenset()
    return ReadCounts(
        accounts=tuple(ev.RangeAccount(r.topic, r.partition, r.start, r.end, counts) for r, counts in sums.items()),
        gaps=tuple(gap for gap in gaps if gap.topic not in compacted),
        lost=tuple(lost),
        rows_in=sum(counts.data for counts in sums.values()),
        damaged=tuple(damaged),
        damage_told=damage_told,
    )


def throttled_by_broker(outcomes: Iterable[RangeResult]) -> dict[int, float]:
    """Seconds that brokers told the tasks to wait, all tasks together."""
    sums: dict[int, float] = {}
    for outcome in outcomes:
        for broker, seconds in outcome.throttled:
            sums[broker] = sums.get(broker, 0.0) + seconds
    return sums


def offsets_fault(reading: ReadCounts, on_gap: str) -> str | None:
    """Why the first equation does not hold; None where it does."""
    account = reading.unbalanced
    if account is not None:
        return (
            f"{account.topic}-{account.partition} [{account.start}, {account.end}) has {account.end - account.start} "
            f"offsets, and {account.counts.total} are accounted for: {account.counts}"
        )
    if reading.gaps and on_gap == "fail":
        first = reading.gaps[0]
        return f"offsets are absent that no compaction explains: {first}" + (
            f" and {len(reading.gaps) - 1} more gaps" if len(reading.gaps) > 1 else ""
        )
    return None


def rows_fault(written: Mapping[str, int], commits: Mapping[str, ev.TableCommit]) -> str | None:
    """Why the second equation does not hold; None where it does.

    written: rows by table as the tasks told, for the tables that this attempt wrote.
    """
    for table, rows in written.items():
        if commits[table].rows != rows:
            return f"the tasks wrote {rows} rows for {table}, and its commit holds {commits[table].rows}"
    return None


def differing_accounts(first: ReadCounts, again: ReadCounts, ranges: Collection[ev.PlannedRange]) -> str | None:
    """Where a second reading of these ranges found something else than the first; None where it did not."""
    before = {(a.topic, a.partition, a.start): a.counts for a in first.accounts}
    wanted = {(r.topic, r.partition, r.start) for r in ranges}
    for account in again.accounts:
        key = account.topic, account.partition, account.start
        if key in wanted and before[key] != account.counts:
            told = f"{account.tp} [{account.start}, {account.end}) held {before[key]}"
            return f"{told}, and {account.counts} as it was landed"
    return None


def failed(plan: ev.RunPlan, fault: str, equation: ev.Equation) -> Refused:
    """The refusal that a failed account ends in."""
    gap = equation == "offsets" and "compaction" in fault
    return Refused(
        "offsets-absent" if gap else "account-failed",
        f"the account of run {plan.run_id} does not hold: {fault}",
        remedy="to go on with the gap on record, set source.on_gap: record"
        if gap
        else f"look at the run in the ledger; then `kseg repair --finish {plan.run_id}` reads and accounts again, and "
        f"`kseg repair --abandon {plan.run_id}` removes its rows",
        run=plan.run_id,
    )
