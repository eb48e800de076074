"""The account of a run: two equations that must hold before the group's offsets may move.

    offsets   data + control + aborted + quarantined + absent = the range's length           before the first commit
    decoding  decoded + dead-lettered + dropped = data, dead letters = their files' footers  before the first commit
    routes    rows by route = decoded; by table = its files' footers (without a transform)   before the first commit
    rows      decoder = steps = writer = footers (`etl.run.row_counts`)                      before the first commit
              footers = the tables' commits                                                  after the last commit

A filter in the transform is legal, so rows into it and rows out of it are recorded and never compared.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final

from kseg.etl.decoding.bad_records import MAX_EXAMPLES
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.source.logs import Logs
from kseg.etl.source.range_result import RangeResult

_ABSENT: Final = "offsets are absent that no compaction explains"


@dataclass(frozen=True, slots=True)
class ReadCounts:
    """Counts of a read of a plan: one account a planned range, in the plan's order.

    gaps: absent offsets seen in topics that are not compacted; compacted: in those that are. gaps_complete: whether
    these are all of them. lost: offsets that could not be read any more.
    damaged: offsets that went to the quarantine; damage_complete: whether these are all of them.
    dead_examples: the first dead letters, a line each. nulled_examples: by topic, the first rows with nulls in place of
    what cannot be decoded: each part of `decode:` has a maximum of its own.
    mismatch: where a task's own counts do not agree, or offsets were read by two tasks or by none.
    """

    accounts: tuple[ev.RangeAccount, ...]
    gaps: tuple[OffsetRange, ...]
    lost: tuple[OffsetRange, ...]
    rows_in: int
    damaged: tuple[OffsetRange, ...] = ()
    damage_complete: bool = True
    mismatch: str | None = None
    compacted: tuple[OffsetRange, ...] = ()
    gaps_complete: bool = True
    dead_examples: tuple[str, ...] = ()
    nulled_examples: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def dead(self) -> int:
        """Dead letters."""
        return sum(a.counts.decoding.dead for a in self.accounts if a.counts.decoding is not None)

    def accounted(self, run_id: str, rows_out: int) -> ev.Accounted:
        """The event of a run whose counts agree."""
        gaps = (*self.gaps, *self.lost)
        return ev.Accounted(run_id=run_id, ranges=self.accounts, rows_in=self.rows_in, rows_out=rows_out, gaps=gaps)

    def failed(
        self, run_id: str, equation: ev.Equation, reason: str, rows_out: int | None, *, final: bool
    ) -> ev.AccountFailed:
        """The event of one whose counts do not. final: as `ev.AccountFailed`."""
        return ev.AccountFailed(
            run_id=run_id,
            equation=equation,
            reason=reason,
            ranges=self.accounts,
            rows_in=self.rows_in,
            rows_out=rows_out,
            gaps=self.gaps,
            final=final,
        )

    @property
    def unbalanced(self) -> ev.RangeAccount | None:
        return next((account for account in self.accounts if not account.balanced), None)


def account_for(plan: ev.RunPlan, results: Iterable[RangeResult], logs: Logs) -> ReadCounts:
    """Sum the tasks' results by planned range."""
    sums: dict[ev.PlannedRange, ev.RangeCounts] = dict.fromkeys(plan.ranges, ev.RangeCounts())
    by_partition: dict[tuple[str, int], list[ev.PlannedRange]] = {}
    for planned in sorted(plan.ranges, key=lambda r: (r.start, r.end)):
        by_partition.setdefault((planned.topic, planned.partition), []).append(planned)
    read: dict[ev.PlannedRange, list[RangeResult]] = {planned: [] for planned in plan.ranges}
    gaps: list[OffsetRange] = []
    lost: list[OffsetRange] = []
    damaged: list[OffsetRange] = []
    damage_complete = gaps_complete = True
    ordered = list(results)
    for result in ordered:
        of_partition = by_partition[result.topic, result.partition]
        planned = of_partition[bisect_right(of_partition, result.start, key=_start) - 1]
        read[planned].append(result)
        sums[planned] += ev.RangeCounts(
            result.data,
            result.control,
            result.aborted,
            result.unreadable,
            result.absent,
            result.late,
            result.decoded,
            _by_table(plan, result.routed or {}),
        )
        gaps_complete = gaps_complete and result.gap_count == len(result.gaps)
        gaps += [OffsetRange(result.topic, result.partition, first, last) for first, last in result.gaps]
        damaged += [OffsetRange(result.topic, result.partition, damage.first, damage.last) for damage in result.damages]
        damage_complete = damage_complete and result.damage_count == len(result.damages)
        lost += [OffsetRange(result.topic, result.partition, loss.first, loss.last) for loss in result.lost]
    compacted = logs.compacted({gap.topic for gap in gaps}) if gaps else frozenset()
    return ReadCounts(
        accounts=tuple(ev.RangeAccount(r.topic, r.partition, r.start, r.end, counts) for r, counts in sums.items()),
        gaps=tuple(gap for gap in gaps if gap.topic not in compacted),
        lost=tuple(lost),
        rows_in=sum(counts.data for counts in sums.values()),
        damaged=tuple(damaged),
        damage_complete=damage_complete,
        mismatch=next(filter(None, (_range_mismatch(planned, found) for planned, found in read.items())), None),
        compacted=tuple(gap for gap in gaps if gap.topic in compacted),
        gaps_complete=gaps_complete,
        dead_examples=_first(result.dead_examples for result in ordered),
        nulled_examples={
            topic: _first(result.nulled_examples for result in ordered if result.topic == topic)
            for topic in dict.fromkeys(result.topic for result in ordered if result.nulled_examples)
        },
    )


def _first(examples: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(islice(chain.from_iterable(examples), MAX_EXAMPLES))


def _by_table(plan: ev.RunPlan, routed: Mapping[str, int]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for route, rows in routed.items():
        sums[plan.routes[route]] = sums.get(plan.routes[route], 0) + rows
    return sums


def _start(planned: ev.PlannedRange) -> int:
    return planned.start


def _range_mismatch(planned: ev.PlannedRange, results: list[RangeResult]) -> str | None:
    """Whether each offset was read by one task, and the task's counts agree; None where all is well."""
    at = planned.start
    for result in sorted(results, key=lambda result: result.start):
        if result.start != at:
            first, last = sorted((at, result.start))
            by = "by no task" if at < result.start else "by two tasks"
            return f"{planned.tp} [{first}, {last}) was read {by}"
        if result.mismatch is not None:
            return f"{planned.tp} [{result.start}, {result.end}): {result.mismatch}"
        at = result.end
    return None if at == planned.end else f"{planned.tp} [{at}, {planned.end}) was read by no task"


def throttled_by_broker(results: Iterable[RangeResult]) -> dict[int, float]:
    """Seconds that quotas made tasks wait, by broker, summed over all tasks."""
    sums: dict[int, float] = {}
    for result in results:
        for broker, seconds in result.throttled:
            sums[broker] = sums.get(broker, 0.0) + seconds
    return sums


def offsets_mismatch(reading: ReadCounts, on_gap: str) -> str | None:
    """Why the first equation does not hold; None where it does."""
    if reading.mismatch is not None:
        return reading.mismatch
    account = reading.unbalanced
    if account is not None:
        return (
            f"{account.topic}-{account.partition} [{account.start}, {account.end}) has {account.end - account.start} "
            f"offsets, and {account.counts.total} are accounted for: {account.counts}"
        )
    if reading.gaps and on_gap == "fail":
        first = reading.gaps[0]
        return f"{_ABSENT}: {first}" + (f" and {len(reading.gaps) - 1} more gaps" if len(reading.gaps) > 1 else "")
    return None


def differing_accounts(first: ReadCounts, again: ReadCounts, ranges: Collection[ev.PlannedRange]) -> str | None:
    """The difference between a second read of these ranges and the first; None if they agree."""
    before = {(a.topic, a.partition, a.start): a.counts for a in first.accounts}
    wanted = {(r.topic, r.partition, r.start) for r in ranges}
    for account in again.accounts:
        key = account.topic, account.partition, account.start
        if key in wanted and before[key] != account.counts:
            address = f"{account.tp} [{account.start}, {account.end})"
            return f"{address} held {before[key]}, and {account.counts} as it was landed"
    return None


def failed(plan: ev.RunPlan, event: ev.AccountFailed) -> Refused:
    """The error of a run whose account failed."""
    gap = event.equation == "offsets" and event.reason.startswith(_ABSENT)
    if gap:
        return Refused.of("offsets-absent", {"reason": event.reason}, case="run", run=plan.run_id)
    values = {"reason": event.reason, "ways_out": ways_out(plan.run_id, event)}
    return Refused.of("account-failed", values, case="run", run=plan.run_id)


def ways_out(run_id: str, event: ev.AccountFailed) -> str:
    """The commands that lead out of a failed account."""
    if event.final:
        return (
            f"`kseg repair JOB --abandon {run_id}` removes its rows, and the next run reads its offsets again (they "
            "have landed behind a transform, so that reading again would compare them with nothing)"
        )
    finish, abandon = (f"`kseg repair JOB {option} {run_id}`" for option in ("--finish", "--abandon"))
    return f"{finish} reads and counts again, or {abandon} removes its rows"
