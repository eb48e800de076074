"""`kseg dump --group` and `--transactional-id`: what a coordinator remembers, as a document and its headline."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kseg.etl.config.times import epoch_millis
from kseg.etl.internal_topics.group_state import group_state
from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.internal_topics.transactional_state import transactional_id_state

Told = tuple[dict[str, Any], str]


def group_document(
    log_dirs: LogDirs, group: str, *, partitions: int | None, retention_minutes: float, at: datetime | None
) -> Told:
    """A group's state. Raises as `etl.internal_topics.group_state.group_state`."""
    told = group_state(
        log_dirs,
        group,
        partitions=partitions,
        retention_ms=round(retention_minutes * 60_000),
        at=None if at is None else epoch_millis(at),
    )
    if told.kind.kind is None:
        return told.to_json(), f"{group}: nothing is known of such a group"
    pending = f", {len(told.pending)} pending" if told.pending else ""
    expired = f", {len(told.expired)} expired" if told.expired else ""
    headline = (
        f"{group}: {told.kind.kind} group, {told.kind.state}, {len(told.kind.members)} members, "
        f"{len(told.offsets)} offsets{pending}{expired}"
    )
    return told.to_json(), headline


def transactional_id_document(log_dirs: LogDirs, transactional_id: str, *, partitions: int | None) -> Told:
    """A transactional id's state. Raises as `etl.internal_topics.transactional_state.transactional_id_state`."""
    told = transactional_id_state(log_dirs, transactional_id, partitions=partitions)
    if told.state == "Dead":
        return told.to_json(), f"{transactional_id}: nothing is known of such a transactional id"
    producer = f"producer {told.producer_id}, epoch {told.producer_epoch}"
    return told.to_json(), f"{transactional_id}: {told.state}, {producer}"
