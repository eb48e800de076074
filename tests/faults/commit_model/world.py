"""A small world in memory: two topics, two tables, one group, one ledger; and what holds in each of its states.

Ledger, plans and reconciliation are the real ones: `fold`, `plan_incremental`, `BackfillPlanner`, `reconcile`. Tables
and group do what Delta and Kafka promise: a commit whose app transaction is taken fails, and offsets of a producer that
was fenced are not committed.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata
from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.group_reconciliation import GroupView
from kseg.etl.planning.plan import PlanInputs
from kseg.etl.planning.snapshot import SourceSnapshot
from kseg.etl.source.resolve import LogBounds

GROUP = "etl"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TABLES = {"orders": "/lake/orders", "payments": "/lake/payments"}
PARTITIONS = tuple(TopicPartition(topic, 0) for topic in TABLES)
RECORDS = 2
"""Of each log; one of them comes while the job runs."""

_DOCUMENT: dict[str, Any] = {
    "version": 1,
    "name": "job",
    "kafka": {"bootstrap.servers": "localhost:1"},
    "source": {"topics": list(TABLES)},
    "sink": {"routes": {topic: {"path": path} for topic, path in TABLES.items()}},
    "group": GROUP,
    "ledger": "/lake/ledger",
}
JOB = job_from_document(_DOCUMENT)
CHANGED = job_from_document({**_DOCUMENT, "transform": [{"duckdb": "FROM __rows__"}]})
"""The same job once its file has been changed."""

Row = tuple[TopicPartition, int, str]
"""partition, offset, run id"""


@dataclass(frozen=True)
class Table:
    """rows: in order; transactions: the version of each app's last one. fenced: the version of the last fence."""

    version: int = 0
    rows: frozenset[Row] = frozenset()
    transactions: tuple[tuple[str, int], ...] = ()
    fenced: int = -1

    def transaction(self, app: str) -> int:
        return dict(self.transactions).get(app, -1)

    def commit(self, app: str, version: int, *, add: frozenset[Row] = frozenset(), without: str = "") -> Table:
        """The table after a commit. without: rows of this run go. The caller has seen that its transaction is free."""
        kept = frozenset(row for row in self.rows if row[2] != without)
        taken = {**dict(self.transactions), app: version}
        return Table(self.version + 1, kept | add, tuple(sorted(taken.items())), self.fenced)

    def fence(self) -> Table:
        return replace(self, version=self.version + 1, fenced=self.version + 1)


_DIGESTS: dict[int, tuple[JobState, bytes]] = {}


def digest_of(state: JobState) -> bytes:
    """Of the ledger's state, which many worlds share; each object is written out once."""
    known = _DIGESTS.get(id(state))
    if known is None:
        found = hashlib.blake2b(repr(state).encode(), digest_size=16).digest()
        known = _DIGESTS[id(state)] = state, found
    return known[1]


@dataclass(frozen=True)
class World:
    """ends: of the logs. group: committed offsets. producer: the epoch that may commit. processes: what runs.

    excused: rows of an accounted run were removed, since it is abandoned; another may commit the group's offsets over
    them before or meanwhile. Until the next commit the group is ahead, as docs/explanation/faults.md says.
    unasked: an abandonment has removed rows that were not there when it was decided on.
    """

    ledger: JobState = field(default_factory=lambda: JobState(job="job", ledger_id="ledger"))
    ends: tuple[int, ...] = (1, 1)
    tables: tuple[tuple[str, Table], ...] = tuple((path, Table()) for path in TABLES.values())
    group: tuple[tuple[TopicPartition, CommittedOffset], ...] = ()
    producer: int = 0
    processes: tuple[Any, ...] = ()
    crashes: int = 0
    excused: bool = False
    unasked: str = ""

    # --- the ledger

    def write(self, events: Sequence[ev.Event]) -> World:
        entries = [Entry(event, NOW, self.ledger.sequence + 1) for event in events]
        return replace(self, ledger=fold(self.ledger, entries)) if entries else self

    def hold(self, chain: str, attempt: int) -> None:
        """Raises LeaseLost where another has taken the chain's lease since."""
        lease = self.ledger.lease(chain)
        if lease is None or lease.attempt != attempt or lease.released:
            raise LeaseLost("taken over", job="job", chain=chain)

    # --- tables

    def table(self, path: str) -> Table:
        return dict(self.tables)[path]

    def with_table(self, path: str, table: Table) -> World:
        return replace(self, tables=tuple((name, table if name == path else old) for name, old in self.tables))

    def state_of(self, path: str) -> ev.TableState:
        table = self.table(path)
        return ev.TableState(path, table.version, len(table.rows))

    # --- what a run observes

    def offsets(self) -> dict[TopicPartition, CommittedOffset]:
        return dict(self.group)

    def inputs(self, job: Job = JOB) -> PlanInputs:
        bounds = {tp: LogBounds(0, end, end) for tp, end in zip(PARTITIONS, self.ends, strict=True)}
        topics = {
            tp.topic: TopicMetadata(
                tp.topic, uuid.UUID(int=number + 1), False, {0: PartitionMetadata(0, 1, 0, (1,), (1,))}
            )
            for number, tp in enumerate(PARTITIONS)
        }
        snapshot = SourceSnapshot(
            cluster_id="cluster",
            topics=topics,
            bounds=bounds,
            starts={tp: b.start for tp, b in bounds.items()},
            ends={tp: b.last_stable for tp, b in bounds.items()},
        )
        return PlanInputs(job, snapshot, {path: self.state_of(path) for path, _ in self.tables}, self.view())

    def view(self) -> GroupView:
        found = self.offsets()
        return GroupView(GROUP, {tp: found.get(tp, CommittedOffset(-1, -1, "")) for tp in PARTITIONS})

    # --- what must hold in every state

    def rows_at(self, tp: TopicPartition) -> dict[int, list[str]]:
        found: dict[int, list[str]] = {}
        for at, offset, run_id in sorted(self.table(TABLES[tp.topic]).rows):
            if at == tp:
                found.setdefault(offset, []).append(run_id)
        return found

    def ahead(self) -> list[str]:
        """Where the group's offsets are ahead of the rows."""
        wrong = []
        for tp, committed in self.offsets().items():
            missing = [offset for offset in range(committed.offset) if offset not in self.rows_at(tp)]
            wrong += [f"the group is at {committed.offset} in {tp}, and {missing} have no rows"] if missing else []
        return wrong

    def faults(self) -> list[str]:
        """What is wrong in this state: rows twice, offsets ahead of rows, or rows removed that nobody decided on."""
        wrong = [] if self.excused else self.ahead()
        wrong += [self.unasked] if self.unasked else []
        for tp in PARTITIONS:
            rows = self.rows_at(tp)
            wrong += [f"{tp}:{offset} has rows of {runs}" for offset, runs in rows.items() if len(runs) > 1]
        return wrong

    def complete(self) -> bool:
        """Whether each record has its row, and the group is at the end of each log."""
        return all(
            sorted(self.rows_at(tp)) == list(range(end)) and tp in self.offsets() and self.offsets()[tp].offset == end
            for tp, end in zip(PARTITIONS, self.ends, strict=True)
        )

    def key(self) -> bytes:
        """The same for states that cannot be told apart."""
        seen = (digest_of(self.ledger), self.ends, self.tables, self.group, self.producer, self.excused, self.unasked)
        return hashlib.blake2b(repr((seen, self.processes, self.crashes)).encode(), digest_size=16).digest()
