"""Metadata of a run's commits besides their app transaction, for people and for `--rebuild-ledger`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.kept_offsets import kept_digest
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.values import RunPlan
from kseg.etl.tables.values import RunCommit


@dataclass(frozen=True)
class CommitFacts:
    """Makes the metadata of one run's commits. job: its name. ledger: the id of its ledger."""

    plan: RunPlan
    job: str
    ledger: str

    @cached_property
    def _read(self) -> list[list[str | int]]:
        return [[planned.topic, planned.partition, planned.start, planned.end] for planned in self.plan.ranges]

    @cached_property
    def _ranges(self) -> dict[str | None, list[list[str | int]]]:
        """By table, in one pass over the plan."""
        found: dict[str | None, list[list[str | int]]] = {}
        for planned, one in zip(self.plan.ranges, self._read, strict=True):
            for table in self.plan.routed or (planned.table,):
                found.setdefault(table, []).append(one)
        return found

    def of(self, table: str, kept: Mapping[TopicPartition, OffsetSet] | None = None) -> RunCommit:
        """The run as its commit to this table names it. kept: of a replacement, what it has left as it was."""
        plan, ranges = self.plan, self._ranges.get(table, [])
        facts: dict[str, Any] = {"job": self.job, "ledger": self.ledger, "mode": plan.mode, "ranges": ranges}
        if not ranges:
            facts["read"] = self._read  # by a table beside the rows: what it has may be of any of these
        if table in plan.routed:
            facts["routed"] = [*plan.routed]  # the ranges' other rows are in these, or yet to come there
        if plan.generations:
            read = {(topic, partition) for topic, partition, _, _ in ranges or self._read}
            facts["generations"] = [[*tp, number] for tp, number in sorted(plan.generations.items()) if tp in read]
        if kept is not None:
            facts["kept"] = kept_digest(plan, table, kept)
        return RunCommit(plan.run_id, plan.app_id, plan.app_version, facts)
