"""Planning inputs that were read with one state of the ledger, and are used with a later one.

Other chains' runs write to the ledger while a plan is made, several times a second where many run side by side; reading
logs, tables and group again after each of their events, a plan would never be made. So the inputs stay, and take over
what the ledger alone says of them:

    event of another chain                what it means for inputs that were read before
    ------------------------------------  ----------------------------------------------------------------
    landed, abandoned, table accepted     that run's table states are newer than those that were read
    offsets committed or accepted         that commit is newer than the group's offsets that were read
    planned, accounted, finished          nothing: plans are made of the ledger's state, not of the inputs
    leased, renewed, released             nothing
    another table under a name or none,
    another topic, offsets reopened,
    rows by other rules of decoding       they are read again
"""

from __future__ import annotations

from dataclasses import replace

from kseg.client.groups.offsets import CommittedOffset
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import TableRecord
from kseg.etl.planning.group_reconciliation import GroupView
from kseg.etl.planning.plan import PlanInputs


def inputs_as_of(inputs: PlanInputs, read_with: JobState, state: JobState) -> PlanInputs | None:
    """The inputs, brought up to date for a plan of this state; None where they have to be read again.

    read_with: the state before they were read.
    """
    if read_with.sequence == state.sequence:
        return inputs
    if read_with.reopened != state.reopened or _identities(inputs, read_with) != _identities(inputs, state):
        return None
    if inputs.job.decode is not None and _rules(inputs, read_with) != _rules(inputs, state):
        return None
    tables = dict(inputs.tables)
    for name, seen in inputs.tables.items():
        now, before = state.tables.get(name), read_with.tables.get(name)
        if now == before:
            continue
        if now is None or (seen is not None and seen.id != now.id):
            return None
        if seen is None or seen.version < now.version:
            tables[name] = now
    group = None if inputs.group is None else group_as_of(inputs.group, read_with, state)
    return replace(inputs, tables=tables, group=group)


def _identities(inputs: PlanInputs, state: JobState) -> list[tuple[object, object] | None]:
    known = (state.topics.get(topic) for topic in inputs.snapshot.topics)
    return [None if topic is None else (topic.topic_id, topic.cluster_id) for topic in known]


def _rules(inputs: PlanInputs, state: JobState) -> list[int]:
    return [state.table_records.get(name, TableRecord()).rules for name in inputs.tables]


def group_as_of(view: GroupView, read_with: JobState, state: JobState) -> GroupView:
    """The group's offsets as of this state. read_with: the state before they were read."""
    before = read_with.group_offsets(view.group)
    committed = {
        tp: CommittedOffset(offset.offset, offset.leader_epoch, offset.metadata)
        for tp, offset in state.group_offsets(view.group).items()
        if tp in view.offsets and before.get(tp) != offset
    }
    return replace(view, offsets={**view.offsets, **committed}) if committed else view
