"""How many rows of an unfinished run nothing could land again: abandoning the run removes them for good.

    rows of the run in its tables ──► whose offsets its source has no more ──► gone
                                 └──► of which it cannot be known          ──► unknown

The source of a run is what it was planned to read: the brokers, the files of a backfill, or for a redrive the table of
dead letters. Brokers are asked for at most `ASKING`, and only about a run that has landed: a run can be abandoned where
its brokers are gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kseg.client.errors import KafkaError
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.errors import KsegError, Refused, summary
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.ledger.ranges import EMPTY, Interval, OffsetSet
from kseg.etl.ledger.state import RunState
from kseg.etl.operations.as_planned import as_planned
from kseg.etl.planning.source_identity import check_source, ends_of_epochs
from kseg.etl.rows.names import KSEG_ADDRESS, OWN_ADDRESS, RUN_COLUMN, AddressColumns
from kseg.etl.rows.types import ADDRESS_TYPES
from kseg.etl.run.abandon import landed_tables
from kseg.etl.run.context import JobContext
from kseg.etl.tables.protocol import TableAccess
from kseg.segment_reader.log.errors import LogFileError

ASKING: Final = timedelta(seconds=20)
"""How long brokers are asked for the start of their logs."""

ByPartition = Mapping[TopicPartition, OffsetSet]


@dataclass(frozen=True, slots=True)
class RowsAtStake:
    """gone: rows whose records the run's source has no more. unknown: rows of which that is not known.

    why: the reason where some are unknown, as an error in one line. readable: the source is the one that the run was
    planned from, so that the run can be finished.
    """

    gone: int = 0
    unknown: int = 0
    why: str | None = None
    readable: bool = True

    def __bool__(self) -> bool:
        return bool(self.gone or self.unknown)

    def __str__(self) -> str:
        if self.unknown:
            return f"unknown, up to {self.gone + self.unknown} rows ({self.why})"
        return f"{self.gone} rows"

    def to_json(self) -> dict[str, Any]:
        return {"gone": self.gone, "unknown": self.unknown, "why": self.why}


@dataclass(frozen=True, slots=True)
class _Source:
    """The part of a run's plan that its source still has. unsure: partitions of which that is not known, with the
    reason. readable: as of `RowsAtStake`."""

    has: ByPartition
    unsure: Mapping[TopicPartition, str]
    readable: bool = True


def rows_at_stake(job: Job, context: JobContext, run: RunState) -> RowsAtStake:
    """The rows that are lost if the run is abandoned. context: the job's, in which tables are read."""
    tables = list(landed_tables(context, run))
    if not tables:
        return RowsAtStake()
    planned = run.plan.offsets()
    source = _source_of(job, context, run)
    gone = {tp: lost for tp, offsets in planned.items() if (lost := offsets.subtract(source.has.get(tp, EMPTY)))}
    gone = {tp: offsets for tp, offsets in gone.items() if tp not in source.unsure}
    if not gone and not source.unsure:
        return RowsAtStake()
    stakes = [_in_table(context, run, table, gone, source.unsure) for table in tables]
    whys = [one.why for one in stakes if one.why is not None]
    gone_rows, unknown = sum(one.gone for one in stakes), sum(one.unknown for one in stakes)
    return RowsAtStake(gone_rows, unknown, whys[0] if whys else None, source.readable)


def refuse_loss(run: RunState, stake: RowsAtStake) -> Refused:
    """The error of an abandonment that would lose rows which nobody has agreed to lose."""
    final = run.account_failed is not None and run.account_failed.final
    case = "some" if stake.readable and not final else "cannot finish"
    return Refused.of("rows-would-be-lost", {"stake": stake}, case=case, run=run.run_id)


def _source_of(job: Job, context: JobContext, run: RunState) -> _Source:
    planned = run.plan.offsets()
    try:
        if run.mode == REDRIVE:
            return _Source(_letters(context, run), {})
        return _log(_in_short(as_planned(job, run)), run)
    except (KsegError, KafkaError, LogFileError) as error:
        return _Source({}, dict.fromkeys(planned, summary(error)), readable=False)


def _in_short(job: Job) -> Job:
    """The job with requests that fail soon."""
    return job.model_copy(update={"run": job.run.model_copy(update={"deadline": min(job.run.deadline, ASKING)})})


def _log(pinned: Job, run: RunState) -> _Source:
    """Raises Refused where the logs are not those that the run has read; KafkaError, LogFileError: not to be asked."""
    of_files = pinned.source.segments is not None and run.mode != ev.INCREMENTAL
    with JobContext.open(pinned, ledger="required", copy=of_files) as source:
        state = source.clients.read_state()
        snapshot = source.inputs.bounds(state)
        check_source(snapshot, state, ends_of_epochs(source.inputs.logs, snapshot, state))
        planned = run.plan.offsets()
        has = {
            tp: OffsetSet.single(bounds.start, bounds.high_watermark)
            for tp, bounds in snapshot.bounds.items()
            if tp in planned and bounds.start < bounds.high_watermark
        }
        compacted = source.inputs.logs.compacted({tp.topic for tp in planned})
        unsure = {tp: "compaction removes records anywhere" for tp in planned if tp.topic in compacted}
        return _Source({tp: state.current(run, tp, offsets) for tp, offsets in has.items()}, unsure)


def _letters(context: JobContext, run: RunState) -> ByPartition:
    """The addresses of the dead letters that are in their table."""
    table = run.plan.dead_letters
    access = context.targets.access(table) if table is not None else None
    if access is None or access.state() is None:
        return {}
    found: dict[TopicPartition, list[Interval]] = {}
    for batch in access.scan(OWN_ADDRESS):
        for tp, offsets in _by_partition(batch, OWN_ADDRESS):
            found.setdefault(tp, []).extend((offset, offset + 1) for offset in offsets.to_pylist())
    return {tp: OffsetSet.of(intervals) for tp, intervals in found.items()}


def _in_table(
    context: JobContext, run: RunState, table: str, gone: ByPartition, unsure: Mapping[TopicPartition, str]
) -> RowsAtStake:
    access = context.targets.access(table)
    if access is None or access.state() is None:
        return RowsAtStake()  # nothing is left to be removed
    # Of an attempt that died before it recorded its landing, there may be a row for each offset.
    landed = run.landed[table].rows if table in run.landed else sum(planned.length for planned in run.plan.ranges)
    try:
        return _rows_of(access, run, _address(run, table, access), gone, unsure)
    except KsegError as error:
        return RowsAtStake(unknown=landed, why=summary(error))


def _address(run: RunState, table: str, access: TableAccess) -> AddressColumns | None:
    """The columns that hold the addresses of the run's rows; None if its rows have none."""
    beside = table in (run.plan.dead_letters, run.quarantine)
    if not beside and not json.loads(run.plan.pinned_config)["sink"].get("addresses", True):
        return None  # columns of these names are the job's own, or those of earlier runs
    there = set(access.column_names())
    return next((names for names in (KSEG_ADDRESS, OWN_ADDRESS) if {*names} <= there), None)


def _rows_of(
    access: TableAccess,
    run: RunState,
    address: AddressColumns | None,
    gone: ByPartition,
    unsure: Mapping[TopicPartition, str],
) -> RowsAtStake:
    without = f"{access.name} has no addresses of records"
    if address is None:
        rows = sum(batch.num_rows for batch in access.scan([RUN_COLUMN], {RUN_COLUMN: run.run_id}))
        return RowsAtStake(unknown=rows, why=without) if rows else RowsAtStake()
    lost, unknown, why = 0, 0, None
    for batch in access.scan(address, {RUN_COLUMN: run.run_id}):
        if missing := batch.column(address.offset).null_count:  # they may have their address in other columns
            unknown, why = unknown + missing, without
        for tp, offsets in _by_partition(batch, address):
            if tp in unsure:
                unknown, why = unknown + len(offsets), unsure[tp]
            for start, end in gone.get(tp, EMPTY):
                lost += pc.sum(pc.and_(pc.greater_equal(offsets, start), pc.less(offsets, end))).as_py() or 0
    return RowsAtStake(lost, unknown, why)


def _by_partition(batch: pa.RecordBatch, address: Sequence[str]) -> Iterator[tuple[TopicPartition, pa.ChunkedArray]]:
    """The offsets of each partition in a batch; rows without an address are left out."""
    columns = [batch.column(name).cast(kind) for name, kind in zip(address, ADDRESS_TYPES, strict=True)]
    rows = pa.table(columns, names=["topic", "partition", "offset"]).drop_null()
    for key in rows.select(["topic", "partition"]).group_by(["topic", "partition"]).aggregate([]).to_pylist():
        here = pc.and_(pc.equal(rows["topic"], key["topic"]), pc.equal(rows["partition"], key["partition"]))
        yield TopicPartition(key["topic"], key["partition"]), rows.filter(here)["offset"]
