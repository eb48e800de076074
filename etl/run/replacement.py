"""What a replacement removes: rows of its own source, at the offsets that the run has read.

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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Refused, RetriableFailure
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.row_owner import SourceRows
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.ledger.values import APP_ROOT, app_owners
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.run.account import ReadCounts, account_for, differing_accounts
from kseg.etl.run.context import JobContext
from kseg.etl.tables.parquet.schema import AddressColumns
from kseg.etl.tables.removal import OfAddresses

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kseg.etl.run.spark_jobs import SparkJobs
    from kseg.etl.tasks.range_results import RangeResults

MOST_RANGES_IN_SQL: Final = 2_000
"""Ranges in one predicate for Spark, which parses each into a tree."""


def _fewer(run_id: str) -> str:
    """The run's offsets are reserved for it until it has ended."""
    return f"`kseg repair JOB --abandon {run_id}`, and replace fewer offsets at once"


@dataclass(frozen=True, slots=True)
class Replacement:
    """The removal of one run. kept: planned offsets whose rows stay."""

    context: JobContext
    plan: ev.RunPlan
    kept: Mapping[TopicPartition, OffsetSet]

    @classmethod
    def after(cls, context: JobContext, plan: ev.RunPlan, reading: ReadCounts) -> Replacement:
        """The replacement of a run that has read its ranges.

        Raises:
            Refused: the tasks have not listed all offsets that they could not read.
        """
        complete = {"too-much-damage": reading.damage_complete, "too-many-gaps": reading.gaps_complete}
        for code, all_known in complete.items():
            if not all_known:
                raise Refused(
                    code,
                    f"the tasks of run {plan.run_id} cannot list all offsets that they could not read, so it may not "
                    "remove rows",
                    remedy=f"lower source.max_records_per_task and repeat the command; or {_fewer(plan.run_id)}",
                    run=plan.run_id,
                )
        unread = [*reading.lost, *reading.damaged, *reading.gaps]
        if not requested(plan).drop_compacted:
            unread += reading.compacted
        intervals: dict[TopicPartition, list[tuple[int, int]]] = {}
        for found in unread:
            intervals.setdefault(found.tp, []).append((found.start, found.end))
        planned = plan.offsets()
        kept = {tp: OffsetSet.of(of_one).intersect(planned.get(tp, EMPTY)) for tp, of_one in intervals.items()}
        return cls(context, plan, {tp: offsets for tp, offsets in kept.items() if offsets})

    def event(self) -> ev.Replacing:
        return ev.Replacing(run_id=self.plan.run_id, kept=dict(self.kept))

    def read_to_disk(
        self, frame: DataFrame, range_results: RangeResults, spark_jobs: SparkJobs, reading: ReadCounts, table: str
    ) -> DataFrame:
        """The rows, read to the workers' disks: what the log loses from here on is not removed without its new row.

        Raises:
            RetriableFailure: the log has lost records since the removal was decided.
        """
        from pyspark import StorageLevel

        kept = frame.persist(StorageLevel.DISK_ONLY)
        with spark_jobs.watching(range_results), range_results.typed_errors():
            kept.count()
        again = account_for(self.plan, range_results.resolve(), self.context.clients.logs)
        fault = differing_accounts(reading, again, {r for r in self.plan.ranges if r.table == table})
        if fault is not None:
            raise RetriableFailure(
                f"the log lost records while rows were being replaced: {fault}", run=self.plan.run_id
            )
        return kept

    def removal(self, table: str, address: AddressColumns, *, by_sql: bool = False) -> OfAddresses:
        """The rows that the run's commit to a table removes.

        Raises:
            Refused: a predicate for Spark would be too long.
        """
        topics = {r.topic for r in self.plan.ranges if r.table == table}
        offsets = {
            tp: planned.subtract(self.kept.get(tp, EMPTY))
            for tp, planned in self.plan.offsets().items()
            if tp.topic in topics
        }
        ranges = sum(len(of_one.intervals) for of_one in offsets.values())
        if by_sql and ranges > MOST_RANGES_IN_SQL:
            raise Refused(
                "too-many-gaps",
                f"Spark would have to remove the rows of {ranges} separate ranges from this table; the limit is "
                f"{MOST_RANGES_IN_SQL}",
                remedy=f"{_fewer(self.plan.run_id)}, or with --drop-compacted, which leaves fewer ranges",
                table=table,
                run=self.plan.run_id,
            )
        return OfAddresses(address, offsets, self._owner(table))

    def _owner(self, table: str) -> SourceRows:
        clients = self.context.clients
        ours = clients.read_state()
        lost = tuple(
            JobState(job=ours.job, ledger_id=ledger, topics=ours.topics, reopened=ours.reopened)
            for ledger in ours.lost_ledgers
        )
        adopted = (*lost, *adopted_jobs(requested(self.plan)))
        known = {(state.ledger_id, state.job) for state in (ours, *adopted)}
        others: dict[str, frozenset[str] | None] = {}
        access = self.context.targets.access(table)
        now = access.state() if access is not None else None
        apps = access.transactions(APP_ROOT, now) if access is not None and now is not None else ()
        for ledger_id, job in app_owners(apps):
            if (ledger_id, job) not in known:
                # Another job of this ledger says which topics it has read; of another ledger nothing is known.
                topics = frozenset(clients.ledger.read(job).topics) if ledger_id == ours.ledger_id else None
                others[f"job {job} of ledger {ledger_id}"] = topics
        everything = requested(self.plan).drop_older_generations
        return SourceRows(table, ours, self.plan.topics, adopted, others, all_generations=everything)


def requested(plan: ev.RunPlan) -> BackfillRequest:
    """The request that a replacement was planned for."""
    return BackfillRequest.from_json(json.loads(plan.asked))


def adopted_jobs(request: BackfillRequest) -> tuple[JobState, ...]:
    """The states of all jobs in the ledgers that a request adopts.

    Raises:
        ConfigurationError: there is no such ledger.
    """
    found: list[JobState] = []
    for path in request.adopt:
        try:
            ledger = Ledger.open(path, create=False)
        except Refused as refused:
            raise ConfigurationError.of(
                "--adopt", f"{path}: {refused.message}", "the path or URL of a ledger"
            ) from None
        found += [ledger.read(job) for job in ledger.jobs()]
    return tuple(found)
