"""An invariant of plans: no offset is in the plans of two unfinished runs, and none that has landed is landed again."""

from __future__ import annotations

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.events import RunPlan
from kseg.etl.ledger.order import LANDS_ONCE
from kseg.etl.ledger.state import JobState


def overlap_of(plan: RunPlan, now: JobState) -> str | None:
    """Why a plan's ranges are not allowed after this state; None if they are."""
    lengths: dict[TopicPartition, int] = {}
    for planned in plan.ranges:
        lengths[planned.tp] = lengths.get(planned.tp, 0) + planned.length
    reserved = now.reservations(except_chain=plan.chain)
    for tp, offsets in plan.offsets().items():
        if offsets.length != lengths[tp]:
            return f"ranges of {tp} overlap"
        if tp in reserved and (taken := offsets.intersect(reserved[tp])):
            return f"{tp} {taken} is planned by a run that has not ended"
        if plan.mode in LANDS_ONCE and (again := offsets.intersect(now.landed(tp))):
            return f"{tp} {again} has landed"
    return None
