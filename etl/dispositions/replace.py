"""Removes the rows that a replacement takes the place of: rows of its own source, at the offsets that the run has read.

    offset                                        rows that are there
    --------------------------------------------  --------------------------------------------------------------------
    read as a record                              go; the run's own rows come in the same commit, if there are any
    read as a marker or an aborted record         go: the log says that no committed record is there
    lost to retention, before or while it read    stay
    absent without an explanation                 stay
    damaged, in the quarantine                    stay
    compacted away                                stay, unless --drop-compacted removes them
    read as a record, and the row is of an older  stay, unless --drop-older-generations removes them
    generation (an accepted change of the source)

So nothing is removed that cannot be read again. It is decided by what was read, just before the commit: a plan may be
days old. The ledger has what stays (`replacing`) before anything is committed: if the run is abandoned after that,
these offsets are still landed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.dispositions.port import ByPartition, Claims, Disposition, Records, Unread
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import EMPTY, OffsetSet, common
from kseg.etl.ledger.row_owner import SourceRows
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.ledger.store import Ledger
from kseg.etl.ledger.values import APP_ROOT, app_owners
from kseg.etl.rows.names import AddressColumns
from kseg.etl.tables.removal import OfAddresses

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

MOST_RANGES_IN_SQL: Final = 2_000
"""Ranges in one predicate for Spark, which parses each into a tree."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says of its replacement (`etl.planning.backfill_request`). adopt: ledgers."""

    drop_compacted: bool
    drop_older_generations: bool
    adopt: tuple[str, ...]

    @classmethod
    def of(cls, plan: ev.RunPlan) -> Asked:
        """The part of the request that a replacement needs, from the run's plan."""
        asked = json.loads(plan.asked)
        return cls(
            asked.get("drop_compacted", False),
            asked.get("drop_older_generations", False),
            tuple(asked.get("adopt", ())),
        )


class Replace(Disposition):
    """Puts rows in place of those that the job's source has in the table at the same offsets."""

    removes: ClassVar[bool] = True

    def check_job(self, job: Job) -> None:
        """See `Disposition.check_job`. Raises ConfigurationError: no address leads to rows in one table."""
        if job.sink.routed:
            raise ConfigurationError.of(
                "--mode",
                "replace takes a range's rows out of one table, and sink.route_by is "
                f"{job.sink.route_by}: they are in several",
                "land the offsets with another job and another ledger, into other tables; or use missing or append",
            )
        if not job.sink.addresses:
            raise ConfigurationError.of("--mode", "replace finds rows by address, and sink.addresses is false")

    def decide(self, plan: ev.RunPlan, unread: Unread, records: Records) -> Replacement:
        """See `Disposition.decide`. Raises Refused: the tasks have not listed all offsets that they could not read."""
        if not unread.damage_complete:
            raise Refused.of("too-much-damage", run=plan.run_id)
        if not unread.gaps_complete:
            raise Refused.of("too-many-gaps", case="tasks", run=plan.run_id)
        without_record = [*unread.lost, *unread.damaged, *unread.gaps]
        if not Asked.of(plan).drop_compacted:
            without_record += unread.compacted
        intervals: dict[TopicPartition, list[tuple[int, int]]] = {}
        for found in without_record:
            intervals.setdefault(found.tp, []).append((found.start, found.end))
        planned = plan.offsets()
        kept = {tp: OffsetSet.of(of_one).intersect(planned.get(tp, EMPTY)) for tp, of_one in intervals.items()}
        return Replacement(records, plan, {tp: offsets for tp, offsets in kept.items() if offsets})

    def claim(self, claims: Claims, run: RunState, here: ByPartition, *, in_table: bool) -> None:
        if run.abandoned and not in_table:
            return
        kept = common(here, run.kept or {})
        taken = {tp: offsets.subtract(kept.get(tp, EMPTY)) for tp, offsets in here.items()}
        claims.remove(taken)
        claims.keep(kept)
        if not run.abandoned:
            claims.land(run.run_id, taken)


@dataclass(frozen=True, slots=True)
class Replacement:
    """The removals of one attempt. kept: planned offsets whose rows stay."""

    records: Records
    plan: ev.RunPlan
    kept: Mapping[TopicPartition, OffsetSet]

    def events(self) -> tuple[ev.Event, ...]:
        """The offsets whose rows stay: they are still landed if the run is abandoned."""
        return (ev.Replacing(run_id=self.plan.run_id, kept=dict(self.kept)),)

    def of(self, table: str, address: AddressColumns, *, by_sql: bool = False) -> OfAddresses:
        """See `Removals.of`. Raises Refused: a predicate for Spark would be too long."""
        topics = {r.topic for r in self.plan.ranges if r.table == table}
        offsets = {
            tp: planned.subtract(self.kept.get(tp, EMPTY))
            for tp, planned in self.plan.offsets().items()
            if tp.topic in topics
        }
        ranges = sum(len(of_one.intervals) for of_one in offsets.values())
        if by_sql and ranges > MOST_RANGES_IN_SQL:
            raise Refused.of(
                "too-many-gaps",
                {"ranges": ranges, "limit": MOST_RANGES_IN_SQL},
                case="spark",
                table=table,
                run=self.plan.run_id,
            )
        return OfAddresses(address, offsets, self._owner(table))

    def _owner(self, table: str) -> SourceRows:
        ours = self.records.ours()
        asked = Asked.of(self.plan)
        adopted = adopted_jobs(asked.adopt)
        known = {(state.ledger_id, state.job) for state in (ours, *adopted)}
        known |= {(ledger_id, ours.job) for ledger_id in ours.lost_ledgers}
        others: dict[str, frozenset[str] | None] = {}
        access = self.records.access(table)
        now = access.state() if access is not None else None
        apps = access.transactions(APP_ROOT, now) if access is not None and now is not None else ()
        for ledger_id, job in app_owners(apps):
            if (ledger_id, job) not in known:
                # Another job of this ledger says which topics it has read; of another ledger nothing is known.
                topics = frozenset(self.records.of_job(job).topics) if ledger_id == ours.ledger_id else None
                others[f"job {job} of ledger {ledger_id}"] = topics
        everything = asked.drop_older_generations
        return SourceRows(table, ours, self.plan.topics, adopted, others, all_generations=everything)


def adopted_jobs(ledgers: Iterable[str]) -> tuple[JobState, ...]:
    """The states of all jobs in the ledgers that a request adopts.

    Raises:
        ConfigurationError: there is no such ledger.
    """
    found: list[JobState] = []
    for path in ledgers:
        try:
            ledger = Ledger.open(path, create=False)
        except Refused as refused:
            raise ConfigurationError.of(
                "--adopt", f"{path}: {refused.message}", "the path or URL of a ledger"
            ) from None
        found += [ledger.read(job) for job in ledger.jobs()]
    return tuple(found)
