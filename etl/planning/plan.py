"""Plans the offsets that a run reads. Pure functions: they read planning inputs and the ledger's state, return events.

For each partition of an incremental run:

    base ───── landed or given up ─────► frontier ─ ─ open ─ ─ ─ end
                                            │                     └ pinned now, never above what may be read
                                            └ the run starts here; higher offsets that have landed, or are planned by
                                              another run, are left out

The job's first run of any kind pins the base: the group's committed offset if there is one, otherwise the configured
start. A topic that is added later starts at its earliest offset, or at the group's offset. A partition that is added to
a topic of the job starts at 0, because otherwise its first records would never be read: if retention has deleted some
of them, they are lost, and an offset that another client has committed there is a change of the group's offsets.

If the first runs read log files, these may have had some of the partitions only. So the first plan at the brokers is a
first plan for all others: they start at the group's offset or the configured start.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.pinned import as_text
from kseg.etl.config.sections import AtTime
from kseg.etl.config.times import format_instant
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError, Refused, listed
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned, BaseReason
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.modes import MODES
from kseg.etl.ledger.ranges import EMPTY, OffsetRange, OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.state import NO_END, JobState
from kseg.etl.planning.cap import capped
from kseg.etl.planning.epoch_ends import EpochEnds
from kseg.etl.planning.group_reconciliation import GroupView, check_committed_epoch, reconcile
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.planning.source_identity import absent_topics, check_logs, check_topics, identities
from kseg.etl.planning.table_rules import (
    beside_unfinished,
    depends_on_rules,
    has_same_columns,
    replaces_all,
    schema_rules,
)
from kseg.etl.tables.side_kinds import side_tables_of
from kseg.etl.tables.values import TableDescription

if TYPE_CHECKING:
    from kseg.etl.ledger.schemas import SchemasAdded
    from kseg.etl.planning.schemas import FoundSchemas

Stamp = Callable[[ev.Event], ev.Event]
"""Fills in under which lease an event is written."""


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """The inputs of a plan, besides the ledger's state.

    tables: the current states of the target tables; None: the table does not exist.
    group: None if the job commits no offsets.
    schemas: schemas of a registry, by lineage.
    sizes: estimated bytes of an offset, by partition, if `run.max_bytes` needs them.
    epoch_ends: the ends of the leader epochs in the ledger and of the group's offsets, of partitions that have another
        epoch now.
    notes: messages for the user about the target tables.
    rules: the rules of decoding of the tables' rows; None: no table has any.
    described: the tables of records as they are.
    """

    job: Job
    snapshot: SourceSnapshot
    tables: Mapping[str, ev.TableState | None]
    group: GroupView | None
    epoch_ends: EpochEnds = field(default_factory=dict)
    schemas: Mapping[str, FoundSchemas] = field(default_factory=dict)
    sizes: Mapping[TopicPartition, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rules: DecodingRules | None = FIRST
    described: Mapping[str, TableDescription] = field(default_factory=dict)

    def table_of(self, topic: str) -> str | None:
        """The table of a topic's rows; None if routes are not selected by topic."""
        return None if self.job.sink.routed else str(self.job.sink.target(topic))


@dataclass(slots=True)
class Draft:
    """An unfinished plan: its events, and the state after them, so that each rule sees the results of earlier rules.

    notes: messages for the user that no event has. unread: for a capped run, the offsets by partition that it leaves to
    later runs.
    """

    inputs: PlanInputs
    state: JobState
    stamp: Stamp
    events: list[ev.Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: dict[TopicPartition, int] | None = None

    @classmethod
    def unwritten(cls, inputs: PlanInputs, state: JobState, chain: str = ev.INCREMENTAL) -> Draft:
        """A draft for a dry run, with a lease that is not in the ledger; it is never written."""
        return cls(inputs, *unwritten_lease(state, chain))

    def add(self, *events: ev.Event) -> None:
        stamped = [self.stamp(event) for event in events]
        self.state = fold(self.state, [Entry(event, datetime.now(UTC), self.state.sequence) for event in stamped])
        self.events += stamped

    def check_and_pin(self, *, moves_offsets: bool) -> None:
        """The first checks of every kind of run: identity, the group's offsets, and bases of new partitions.

        The group's offsets are checked before the logs, because accepting a group offset inside the log resolves a
        start beyond the log's end.

        moves_offsets: whether the run ends with a commit of the group's offsets.

        Raises:
            Refused: source, group or ledger do not agree.
            ConfigurationError: the configured start is beyond a log's end.
        """
        snapshot = self.inputs.snapshot
        check_topics(snapshot, self.state)
        self.notes += self.inputs.notes
        self._note_absent_topics()
        began = self._has_begun()
        if added := self._added():
            self.add(self._pinned(dict.fromkeys(added, 0), "earliest"))
        if self.inputs.group is not None:
            ends = self.inputs.epoch_ends
            self.add(*reconcile(self.inputs.group, self.state, ends, moves_offsets=moves_offsets))
        self.add(*self._bases(began), *self._bases_again())
        check_logs(snapshot, self.state, self.inputs.epoch_ends)

    def _note_absent_topics(self) -> None:
        snapshot, source = self.inputs.snapshot, self.inputs.job.source
        absent = absent_topics(snapshot, source, self.state.topics)
        if source.pattern is not None and not snapshot.topics and not absent:
            self.notes.append(f"source.pattern {source.pattern} selects no topic that the source lists")
        if absent:
            self.notes.append(
                f"not read, because the source does not list them any more: {listed(absent)}. They were "
                "deleted, or the user may no longer describe them; if they return, reading continues where it ended "
                "(a source.pattern without them ends this note)"
            )

    def _added(self) -> list[TopicPartition]:
        """The partitions that were added to topics of the job since the last plan of the same source.

        Other sources, such as files that were read before, may have had some of the partitions only. None for a copy of
        the files: its log start may differ from the partition's.
        """
        known, snapshot = self.state.topics, self.inputs.snapshot
        new = [
            tp
            for tp in snapshot.partitions
            if not (tp in self.state.bases or tp.topic not in known or tp.partition in known[tp.topic].partitions)
        ]
        whole = {topic for topic in {tp.topic for tp in new} if not snapshot.copy and self._was_read_whole(topic)}
        return [tp for tp in new if tp.topic in whole]

    def _was_read_whole(self, topic: str) -> bool:
        """Whether the last plan that read the topic at the brokers, or in these files, read all of its partitions."""
        segments = self.inputs.job.source.segments
        paths = None if segments is None else list(segments.paths)
        for plan in (run.plan for run in reversed(self.state.runs.values())):
            if plan.pinned_config and topic in plan.topics:
                source = json.loads(plan.pinned_config)["source"]
                if (source.get("segments") or {}).get("paths") == paths:
                    return not source.get("assign")
        return False

    def _has_begun(self) -> bool:
        """Whether an earlier plan has decided where the job starts. At the brokers, plans of files do not count."""
        state = self.state
        return bool(state.bases if self.inputs.snapshot.of_files else state.bases.keys() - state.bases_of_files.keys())

    def _pinned(self, bases: dict[TopicPartition, int], reason: BaseReason) -> ev.Event:
        return BasePinned(bases=bases, reason=reason, of_files=self.inputs.snapshot.of_files)

    def _bases_again(self) -> list[ev.Event]:
        """At the brokers, the bases that only plans of files have pinned: from now on the job has begun there."""
        known = self.state.bases_of_files
        again = {tp: self.state.bases[tp] for tp in self.inputs.snapshot.partitions if tp in known}
        return [self._pinned(again, "files")] if again and not self.inputs.snapshot.of_files else []

    def _bases(self, began: bool) -> list[ev.Event]:
        """began: the result of `_has_begun` before this plan pinned anything."""
        snapshot, group = self.inputs.snapshot, self.inputs.group
        pinned: dict[BaseReason, dict[TopicPartition, int]] = {}
        taken: dict[TopicPartition, ev.GroupOffset] = {}
        for tp in snapshot.partitions:
            if tp in self.state.bases:
                continue
            if group is not None and group.has(tp):
                found = group.offsets[tp]
                self._check_group_offset(tp, group.group, found.offset)
                check_committed_epoch(group.group, tp, found, self.inputs.epoch_ends)
                pinned.setdefault("group", {})[tp] = found.offset
                taken[tp] = ev.GroupOffset(found.offset, found.metadata or "", found.leader_epoch)
            elif began:
                pinned.setdefault("earliest", {})[tp] = snapshot.bounds[tp].start
            else:
                self._check_configured_start(tp, snapshot.starts[tp])
                pinned.setdefault("configured", {})[tp] = snapshot.starts[tp]
        start = self.inputs.job.source.starting_offsets
        if isinstance(start, AtTime) and "configured" in pinned:
            self.note_cut_logs(start.timestamp, pinned["configured"])
        if start == "committed" and group is not None and "configured" in pinned:
            self._note_uncommitted(group.group, pinned["configured"])
        events: list[ev.Event] = [self._pinned(bases, reason) for reason, bases in pinned.items()]
        if group is not None and group.watched and taken:
            # Until the first commit the group keeps offsets that others committed: this is no change by another client.
            events.append(ev.GroupOffsetsAccepted(group=group.group, offsets=taken))
        return events

    def _note_uncommitted(self, group: str, starts: Mapping[TopicPartition, int]) -> None:
        """Add a note, because a misspelt group has no offsets either, and reads the whole topic."""
        shown = [f"{tp} at {at}" for tp, at in sorted(starts.items())]
        self.notes.append(
            f"group {group} has no committed offset for {len(shown)} of {len(self.inputs.snapshot.partitions)} "
            f"partitions, which start at the earliest: {listed(shown)}"
        )

    def note_cut_logs(self, start: datetime, offsets: Mapping[TopicPartition, int]) -> None:
        """Add a note if the offset of a time is at the log's start, because retention may have deleted earlier records.

        offsets: the first record at or after the time, by partition.
        """
        snapshot = self.inputs.snapshot
        cut = [f"{tp} {at}" for tp, at in sorted(offsets.items()) if 0 < at == snapshot.bounds[tp].start]
        if cut and not snapshot.copy:
            self.notes.append(
                f"possibly lost: reading starts at {format_instant(start)}, and no older record shows that the log has "
                f"all records since; it begins at offset {listed(cut)}"
            )

    def _check_configured_start(self, tp: TopicPartition, start: int) -> None:
        end = self._end(tp)
        if start > end:
            raise ConfigurationError.of(
                "source.starting_offsets",
                f"{tp} would start at offset {start}, and the log ends at {end}",
                "give an offset inside the log, or `latest`",
            )

    def _check_group_offset(self, tp: TopicPartition, group: str, offset: int) -> None:
        end = self._end(tp)
        if offset > end:
            raise Refused.of(
                "start-beyond-end",
                {"group": group, "end": end},
                case="group",
                topic=tp.topic,
                partition=tp.partition,
                offset=offset,
            )

    def _end(self, tp: TopicPartition) -> int:
        """The log's end. For a copy, which may be old, a base beyond its end is not an error."""
        return NO_END if self.inputs.snapshot.copy else self.inputs.snapshot.bounds[tp].high_watermark

    def drop_lost(self, wanted: Mapping[TopicPartition, OffsetSet]) -> dict[TopicPartition, OffsetSet]:
        """Those of these offsets that the log still has; offsets that retention deleted are recorded, or refused.

        Raises:
            Refused: `data-lost`, unless `on_data_loss: record`.
        """
        lost: list[OffsetRange] = []
        left: dict[TopicPartition, OffsetSet] = {}
        for tp, offsets in wanted.items():
            start = self.inputs.snapshot.bounds[tp].start
            lost += offsets.intersect(OffsetSet.single(0, start)).ranges(tp)
            left[tp] = offsets.subtract(OffsetSet.single(0, start))
        if lost:
            if self.inputs.job.source.on_data_loss == "fail":
                raise _lost(lost)
            self.add(ev.OffsetsGivenUp(ranges=tuple(lost), reason="retention"))
        return left

    @property
    def left_to_later_runs(self) -> int | None:
        """The number of offsets in `unread`; None if the run is not capped."""
        return None if self.unread is None else sum(self.unread.values())

    def plan(
        self,
        run_id: str,
        mode: ev.Mode,
        wanted: Mapping[TopicPartition, OffsetSet],
        *,
        commit_offsets: bool,
        asked: str = "",
        late_before_ms: int | None = None,
    ) -> ev.RunPlan:
        """Pin the run: the plan becomes the last event."""
        job, snapshot, table_of = self.inputs.job, self.inputs.snapshot, self.inputs.table_of
        chain = ev.INCREMENTAL if mode == "incremental" else run_id
        app_id, app_version = self.state.next_app_transaction(chain)
        ranges = tuple(
            ev.PlannedRange(tp.topic, tp.partition, start, end, snapshot.leader_epoch(tp), table_of(tp.topic))
            for tp, offsets in sorted(wanted.items())
            for start, end in offsets
        )
        tables = set(job.sink.tables_of({r.topic for r in ranges})) | {table for _, table in side_tables_of(job)}
        rules = self._rules(mode, wanted)
        added, schemas = self._pinned_schemas(rules)
        if added is not None:
            self.add(added)
        plan = ev.RunPlan(
            run_id=run_id,
            mode=mode,
            chain=chain,
            app_id=app_id,
            app_version=app_version,
            config_hash=job.hash_by(rules),
            pinned_config=as_text(job.pinned()),
            cluster_id=snapshot.cluster_id,
            topics=identities(snapshot, self.state, self.inputs.epoch_ends),
            ranges=ranges,
            tables={table: self.inputs.tables.get(table) for table in sorted(tables)},
            held_back=self._open_transactions(),
            unconfirmed=self._unconfirmed(ranges),
            asked=asked,
            group=job.group,
            commit_offsets=commit_offsets and job.group is not None and job.group_commit != "none",
            quarantine=job.quarantine,
            dead_letters=job.dead_letters,
            marks_late=job.interval is not None,
            late_before_ms=late_before_ms if job.interval is not None else None,
            generations={tp: number for tp in wanted if (number := self.state.generation(tp))},
            schemas=schemas,
            routes={route: str(target) for route, target in job.sink.targets.items()} if job.sink.routed else {},
            decoding_rules=rules.version,
        )
        self.add(ev.Planned(chain=chain, run_id=run_id, plan=plan))
        return plan

    def _rules(self, mode: ev.Mode, wanted: Mapping[TopicPartition, OffsetSet]) -> DecodingRules:
        """The rules of decoding: the tables' own, unless all of their rows are replaced.

        Raises:
            Refused: an unfinished run decodes by others.
        """
        job = self.inputs.job
        if job.decode is None:
            return FIRST
        anew = MODES[mode].replaces and replaces_all(self.state, wanted) and has_same_columns(job)
        may_differ = not depends_on_rules(job)
        return beside_unfinished(NEWEST if anew else self.inputs.rules, self.state, may_differ=may_differ)

    def _pinned_schemas(self, rules: DecodingRules) -> tuple[SchemasAdded | None, dict[str, ev.PinnedSchemas]]:
        if not self.inputs.schemas:
            return None, {}
        # All formats of a registry, which most jobs do not have.
        from kseg.etl.planning.schemas import pinned_schemas, without_rows

        anew = without_rows(self.state)
        rules = schema_rules(self.state, self.inputs.described, rules)
        return pinned_schemas(self.inputs.job, self.inputs.schemas, self.state, rules, anew=anew)

    def _open_transactions(self) -> dict[TopicPartition, ev.HeldBack]:
        if self.inputs.job.source.isolation_level != "read_committed":
            return {}
        return {
            tp: ev.HeldBack(bounds.last_stable, bounds.high_watermark)
            for tp, bounds in self.inputs.snapshot.bounds.items()
            if bounds.high_watermark > bounds.last_stable
        }

    def _unconfirmed(self, ranges: Iterable[ev.PlannedRange]) -> dict[TopicPartition, int]:
        beyond: dict[TopicPartition, int] = {}
        for planned in ranges:
            confirmed = self.inputs.snapshot.bounds[planned.tp].confirmed
            if confirmed is not None and planned.end > confirmed:
                beyond[planned.tp] = confirmed
        return beyond


def unwritten_lease(state: JobState, chain: str) -> tuple[JobState, Stamp]:
    """The state with a lease of the chain that is not in the ledger, and what signs events with it."""
    lease = ev.Leased(chain=chain, owner="unwritten", attempt=state.next_attempt(chain), duration=60.0)
    leased = fold(state, [Entry(lease, datetime.now(UTC), state.sequence)])
    return leased, lambda event: replace(event, chain=chain, owner=lease.owner, attempt=lease.attempt)


def incremental_ranges(
    draft: Draft, until: Mapping[TopicPartition, int] | None = None
) -> dict[TopicPartition, OffsetSet]:
    """Unread ranges: from each frontier to each end, without other runs' offsets.

    until: an upper bound for each end; a partition without one is not read.
    """
    state, ends = draft.state, draft.inputs.snapshot.ends
    if until is not None:
        ends = {tp: min(end, until.get(tp, 0)) for tp, end in ends.items()}
    unread: dict[TopicPartition, tuple[int, int]] = {}
    for tp in draft.inputs.snapshot.partitions:
        frontier = state.frontier(tp)
        if frontier is not None:
            unread[tp] = frontier, max(frontier, ends[tp])
    wanted = {tp: offsets.subtract(state.given_up(tp)) for tp, offsets in state.open_ranges(unread).items()}
    return _non_empty(draft.drop_lost(wanted))


def _non_empty(offsets: Mapping[TopicPartition, OffsetSet]) -> dict[TopicPartition, OffsetSet]:
    return {tp: of_one for tp, of_one in offsets.items() if of_one}


def plan_incremental(draft: Draft, until: Mapping[TopicPartition, int] | None = None) -> ev.RunPlan | None:
    """Plan the incremental chain's next run; None if there is nothing to read.

    until: see `incremental_ranges`.

    Raises:
        Refused: source, group or ledger do not agree, or records were lost.
    """
    draft.check_and_pin(moves_offsets=True)
    wanted = incremental_ranges(draft, until)
    if not wanted:
        return None
    state, run = draft.state, draft.inputs.job.run
    if run.is_capped:
        inputs, unread = draft.inputs, wanted
        wanted = capped(unread, run, inputs.sizes, inputs.snapshot.partitions, state.incremental_sequence)
        left = {tp: offsets.length - wanted.get(tp, EMPTY).length for tp, offsets in unread.items()}
        draft.unread = {tp: count for tp, count in left.items() if count}
    run_id = incremental_run_id(state.ledger_id, state.job, state.incremental_sequence + 1)
    return draft.plan(run_id, "incremental", wanted, commit_offsets=True)


def _lost(lost: Sequence[OffsetRange]) -> Refused:
    first = lost[0]
    values = {"lost": listed(lost)}
    return Refused.of(
        "data-lost", values, case="plan", topic=first.topic, partition=first.partition, offset=first.start
    )
