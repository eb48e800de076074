"""Several runs of one job as one report."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kseg.etl.run.report import RangeReport, RunReport, TableReport


class ReportSum:
    """Adds up reports in the order of their runs. `report` has id, group, lag and freshness of the last one, and sums.

    Ranges that touch are one range, so it grows with partitions, not with runs. Nulls by column are left out.
    """

    def __init__(self) -> None:
        self._report: RunReport | None = None

    @property
    def report(self) -> RunReport:
        """Raises ValueError before the first `add`."""
        if self._report is None:
            raise ValueError("no report was added")
        return self._report

    def add(self, other: RunReport) -> None:
        """A report without a run (nothing to do) adds its group's offsets, notes and seconds alone."""
        so_far = self._report
        if so_far is None:
            self._report = replace(other, tables=_tables([], other.tables))
            return
        so_far.seconds = dict(Counter(so_far.seconds) + Counter(other.seconds))
        so_far.throttled = dict(Counter(so_far.throttled) + Counter(other.throttled))
        so_far.notes = list(dict.fromkeys([*so_far.notes, *other.notes]))
        so_far.given_up = [*so_far.given_up, *other.given_up]
        so_far.group, so_far.freshness = other.group or so_far.group, other.freshness
        if other.run_id is None:
            return
        so_far.run_id, so_far.held_back, so_far.report = other.run_id, other.held_back, other.report
        so_far.unconfirmed = [*so_far.unconfirmed, *other.unconfirmed]
        so_far.ranges = _ranges(so_far.ranges, other.ranges)
        so_far.rows_in, so_far.rows_out = _sum(so_far.rows_in, other.rows_in), _sum(so_far.rows_out, other.rows_out)
        so_far.tables = _tables(so_far.tables, other.tables)
        so_far.quarantine = _table(so_far.quarantine, other.quarantine)
        so_far.dead_letters = _table(so_far.dead_letters, other.dead_letters)


def _ranges(before: list[RangeReport], after: list[RangeReport]) -> list[RangeReport]:
    joined = list(before)
    ending = {(one.topic, one.partition, one.end): at for at, one in enumerate(joined)}
    for one in after:
        at = ending.get((one.topic, one.partition, one.start))
        if at is None:
            joined.append(one)
        else:
            joined[at] = _joined(joined[at], one)
            ending[one.topic, one.partition, one.end] = at
    return sorted(joined, key=lambda one: (one.topic, one.partition, one.start))


def _joined(one: RangeReport, next_: RangeReport) -> RangeReport:
    decoding = None
    if one.decoding is not None or next_.decoding is not None:
        decoding = dict(Counter(one.decoding or {}) + Counter(next_.decoding or {}))
    return RangeReport(
        one.topic,
        one.partition,
        one.start,
        next_.end,
        _sum(one.records, next_.records),
        _sum(one.control, next_.control),
        _sum(one.aborted, next_.aborted),
        _sum(one.absent, next_.absent),
        _sum(one.quarantined, next_.quarantined),
        _sum(one.late, next_.late),
        decoding,
    )


def _tables(before: list[TableReport], after: list[TableReport]) -> list[TableReport]:
    tables = {one.path: one for one in before}
    for one in after:
        joined = _table(tables.get(one.path), one)
        assert joined is not None
        tables[one.path] = joined
    return list(tables.values())


def _table(before: TableReport | None, after: TableReport | None) -> TableReport | None:
    """The last version, with the rows of both; what is known of nulls is one run's."""
    if before is None or after is None:
        last = after or before
        return None if last is None else TableReport(last.path, last.version, last.rows)
    return TableReport(after.path, after.version, _sum(before.rows, after.rows))


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None and other is None else (one or 0) + (other or 0)
