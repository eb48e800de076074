"""The invariants of events: the phases of a run that each event may follow, and the ranges that a plan may have."""

from __future__ import annotations

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.modes import MODES
from kseg.etl.ledger.schemas import SchemasAdded
from kseg.etl.ledger.state import JobState, Phase
from kseg.etl.ledger.table_shaped import TableShaped

MAY_FOLLOW: dict[type[ev.Event], frozenset[Phase]] = {
    ev.Reconfigured: frozenset({"planned"}),
    TableShaped: frozenset({"planned", "landing"}),
    ev.Replacing: frozenset({"planned", "landing"}),
    SchemasAdded: frozenset({"planned", "landing"}),
    ev.Landed: frozenset({"planned", "landing"}),
    ev.Accounted: frozenset({"planned", "landing"}),
    ev.AccountFailed: frozenset({"planned", "landing"}),
    ev.AccountCleared: frozenset({"account-failed"}),
    # Offsets are committed again before a partition's group offset expires, also after the end of the run.
    ev.OffsetsCommitted: frozenset({"accounted", "offsets-committed", "finished"}),
    ev.Finished: frozenset({"accounted", "offsets-committed"}),
    ev.Abandoning: frozenset({"planned", "landing", "account-failed", "accounted"}),
    ev.Abandoned: frozenset({"abandoning"}),
}
"""The phases of a run that each of its events may follow."""


def overlap_of(plan: ev.RunPlan, now: JobState) -> str | None:
    """Why a plan's ranges are not allowed after this state; None if they are."""
    # No offset is in the plans of two unfinished runs, and none that has landed is landed again.
    lengths: dict[TopicPartition, int] = {}
    for planned in plan.ranges:
        lengths[planned.tp] = lengths.get(planned.tp, 0) + planned.length
    reserved = now.reservations(except_chain=plan.chain)
    for tp, offsets in plan.offsets().items():
        if offsets.length != lengths[tp]:
            return f"ranges of {tp} overlap"
        if tp in reserved and (taken := offsets.intersect(reserved[tp])):
            return f"{tp} {taken} is planned by a run that has not ended"
        if MODES[plan.mode].lands_once and (again := offsets.intersect(now.landed(tp))):
            return f"{tp} {again} has landed"
    return None
