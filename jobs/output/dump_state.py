"""`kseg dump --group` and `--transactional-id`: a coordinator's state as a document and its headline."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kseg.etl.config.times import epoch_millis
from kseg.etl.internal_topics.group_state import group_state
from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.internal_topics.transactional_state import transactional_id_state

StateDocument = tuple[dict[str, Any], str]


def group_document(
    log_dirs: LogDirs, group: str, *, partitions: int | None, retention_minutes: float, at: datetime | None
) -> StateDocument:
    """A group's state. Raises as `etl.internal_topics.group_state.group_state`."""
    found = group_state(
        log_dirs,
        group,
        partitions=partitions,
        retention_ms=round(retention_minutes * 60_000),
        at=None if at is None else epoch_millis(at),
    )
    if found.kind.kind is None:
        return found.to_json(), f"{group}: there is no such group in the log"
    pending = f", {len(found.pending)} pending" if found.pending else ""
    expired = f", {len(found.expired)} expired" if found.expired else ""
    headline = (
        f"{group}: {found.kind.kind} group, {found.kind.state}, {len(found.kind.members)} members, "
        f"{len(found.offsets)} offsets{pending}{expired}"
    )
    return found.to_json(), headline


def transactional_id_document(log_dirs: LogDirs, transactional_id: str, *, partitions: int | None) -> StateDocument:
    """A transactional id's state. Raises as `etl.internal_topics.transactional_state.transactional_id_state`."""
    found = transactional_id_state(log_dirs, transactional_id, partitions=partitions)
    if found.state == "Dead":
        return found.to_json(), f"{transactional_id}: there is no such transactional id in the log"
    producer = f"producer {found.producer_id}, epoch {found.producer_epoch}"
    return found.to_json(), f"{transactional_id}: {found.state}, {producer}"
