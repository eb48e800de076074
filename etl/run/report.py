"""A run's report: the object that is printed as a table or with `--json`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from kseg.etl.run.data_freshness import Freshness

Status = Literal["done", "nothing-to-do", "dry-run", "abandoned"]


@dataclass(frozen=True, slots=True)
class RangeReport:
    """One planned range and its counts.

    start, end: offsets, end exclusive; the counts add up to end - start when the range is accounted.
    A count is None if the range has not been read (a dry run).
    late: records with a timestamp before the interval; None if the run does not mark late records.
    decoding: numbers of records by result of decoding; None if decoding cannot set records aside.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: int | None = None
    control: int | None = None
    aborted: int | None = None
    absent: int | None = None
    quarantined: int | None = None
    late: int | None = None
    decoding: dict[str, int] | None = None


@dataclass(frozen=True, slots=True)
class TableNulls:
    """Nulls by column in the rows of an earlier run, for comparison. run: this earlier run."""

    run: str
    rows: int
    nulls: dict[str, int]


@dataclass(frozen=True, slots=True)
class TableReport:
    """One target table: its path or name, the Delta version of the run's commit, and the number of its rows.

    nulls: numbers of nulls in these rows, by column with statistics; None if unknown. before: the same for the last
    earlier run that landed in the table.
    """

    path: str
    version: int | None
    rows: int | None
    nulls: dict[str, int] | None = None
    before: TableNulls | None = None


@dataclass(frozen=True, slots=True)
class OpenTransactionLag:
    """Records of open transactions, which read_committed cannot read yet.

    records: high watermark minus last stable offset, in offsets.
    seconds: age of the oldest of these records, by its timestamp; None if it has no timestamp.
    """

    topic: str
    partition: int
    last_stable_offset: int
    high_watermark: int
    records: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Offsets read from files above the broker's last checkpointed high watermark.

    A broker checkpoints it every few seconds, so after a crash the last records are above it. They may never have been
    replicated. high_watermark: None if there is no checkpoint. offsets: the number of the run's offsets above it.
    """

    topic: str
    partition: int
    high_watermark: int | None
    offsets: int


@dataclass(frozen=True, slots=True)
class OffsetsGivenUp:
    """Offsets that are skipped, with the reason (`retention`, `gap`, `group-offsets-accepted`); end exclusive."""

    topic: str
    partition: int
    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class GroupReport:
    """The group's offsets after the run: `offsets[topic][partition]`, and how they were committed."""

    group: str
    how: str
    offsets: dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True)
class EngineReport:
    """The executor of a run's tasks: `spark`, `connect` or `local`, and the reason for it."""

    name: str
    why: str


@dataclass(slots=True)
class RunReport:
    """One run of a job, as `kseg ingest --json` prints it.

    throttled: seconds for which brokers throttled tasks, summed over all tasks, by broker id.
    quarantine: the table of damaged bytes, with its rows (one for each piece); None if there was no damage.
    dead_letters: the table of records that cannot be decoded; None if there were none.
    report: the path of the run's page; None if no page was requested.
    freshness: after the run; None if `reporting.freshness` is not set.
    unread: offsets that the run's cap left to later runs; None without a cap, or if an earlier attempt made the plan.
    engine: where its tasks work; None if nothing was read, or if only the ledger knows the run.
    lost_rows: of `kseg repair --abandon`, the rows that nothing can land again (`gone`), and those of which that is not
    known (`unknown`), with the reason (`why`); None of all other commands.
    """

    job: str
    run_id: str | None
    mode: str
    status: Status
    ranges: list[RangeReport] = field(default_factory=list)
    rows_in: int | None = None
    rows_out: int | None = None
    tables: list[TableReport] = field(default_factory=list)
    group: GroupReport | None = None
    held_back: list[OpenTransactionLag] = field(default_factory=list)
    unconfirmed: list[Unconfirmed] = field(default_factory=list)
    given_up: list[OffsetsGivenUp] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    throttled: dict[int, float] = field(default_factory=dict)
    quarantine: TableReport | None = None
    dead_letters: TableReport | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    report: str | None = None
    freshness: Freshness | None = None
    unread: int | None = None
    engine: EngineReport | None = None
    lost_rows: dict[str, Any] | None = None

    @property
    def counts(self) -> dict[str, int]:
        """Sums over all ranges: records, control, aborted, absent and quarantined offsets; records that decoding set
        aside, by kind; rows into and out of the transform."""
        kinds = ("records", "control", "aborted", "absent", "quarantined")
        counts = {kind: sum(getattr(r, kind) or 0 for r in self.ranges) for kind in kinds}
        return (
            counts
            | {"offsets": sum(r.end - r.start for r in self.ranges)}
            | ({"late": sum(r.late or 0 for r in self.ranges)} if any(r.late is not None for r in self.ranges) else {})
            | dict(sum((Counter(r.decoding) for r in self.ranges if r.decoding), Counter()))
            | {
                name: rows
                for name, rows in (("rows_in", self.rows_in), ("rows_out", self.rows_out))
                if rows is not None
            }
        )

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return {
            "job": self.job,
            "run": self.run_id,
            "mode": self.mode,
            "status": self.status,
            "ranges": [asdict(r) for r in self.ranges],
            "counts": self.counts,
            "tables": [asdict(t) for t in self.tables],
            "quarantine": asdict(self.quarantine) if self.quarantine else None,
            "dead_letters": asdict(self.dead_letters) if self.dead_letters else None,
            "group": asdict(self.group) if self.group else None,
            "held_back": [asdict(h) for h in self.held_back],
            "unconfirmed": [asdict(u) for u in self.unconfirmed],
            "given_up": [asdict(g) for g in self.given_up],
            "unread": self.unread,
            "engine": asdict(self.engine) if self.engine else None,
            **({"lost_rows": self.lost_rows} if self.lost_rows is not None else {}),
            "notes": list(self.notes),
            "throttled": {str(broker): round(seconds, 3) for broker, seconds in sorted(self.throttled.items())},
            "seconds": {phase: round(seconds, 3) for phase, seconds in self.seconds.items()},
            "report": self.report,
            "freshness": asdict(self.freshness) if self.freshness else None,
        }
