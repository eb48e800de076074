"""The look that every plan begins with: brokers, tables and group as they are now, held against what the ledger knows.

Imports nothing that reads records, so that a plan starts at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.plan import PlanInputs
from kseg.etl.planning.source_identity import check_epochs
from kseg.etl.run.context import JobContext
from kseg.etl.tables.parallel import parallel_map

T = TypeVar("T")


def preflight(context: JobContext, state: JobState, chain: str, *, accept_group_offsets: bool = False) -> PlanInputs:
    """All that a plan of this chain is made from, checked against a state that was read before.

    Raises:
        Refused: a table is not what the ledger left (restored, replaced, overwritten, gone), was landed with a later
            state of this ledger or with another one, or a topic is not the one that the ledger knows.
    """
    job, targets = context.job, context.targets
    snapshot = context.snapshot()
    tables = {str(job.sink.target(topic)) for topic in snapshot.topics}
    if job.quarantine is not None:
        tables.add(job.quarantine)
    if not state.bases and not accept_group_offsets:
        parallel_map(sorted(tables), lambda table: targets.refuse_other_ledger(table, state.ledger_id))
    chains = {ev.INCREMENTAL, chain}
    apps = [state.next_app_transaction(of)[0] for of in chains]
    found = parallel_map(sorted(tables), lambda table: targets.look(table, state.tables.get(table), apps))
    group = context.group_view(snapshot.partitions, accept=accept_group_offsets)
    seen = PlanInputs(job, snapshot, {table: now for table, (now, _) in found.items()}, group)
    check_epochs(context.logs, snapshot, state)
    # Read after the tables: every run is planned in the ledger before it can land.
    _refuse_older_ledger(context.read_state(), chains, {table: landed for table, (_, landed) in found.items()})
    return seen


def read_without_lease(context: JobContext, look: Callable[[JobState], T]) -> T:
    """What a look at the job finds that writes nothing, and so waits for no lease.

    Runs may go on meanwhile: what they land and commit lies beyond the state that was read before, and looks as if the
    ledger had been rolled back. So a refusal counts where the ledger is the same after it; else the look is repeated.

    Raises:
        Refused: as `look` does.
    """
    while True:
        state = context.read_state()
        try:
            return look(state)
        except Refused:
            if context.read_state().sequence == state.sequence:
                raise


def _refuse_older_ledger(state: JobState, chains: Collection[str], landed: Mapping[str, Mapping[str, int]]) -> None:
    """A table that has landed runs which the ledger has never heard of was landed with a later state of it.

    landed: the last transaction of each chain's app, for each table.
    """
    for chain in chains:
        app_id, following = state.next_app_transaction(chain)
        for table, versions in landed.items():
            version = versions.get(app_id, 0)
            if version < following:
                continue
            raise Refused(
                "ledger-older-than-table",
                f"the table has landed transaction {version} of {app_id}, and the ledger knows of {following - 1}",
                remedy="use the ledger that this table was landed with: this one was restored from a copy",
                table=table,
            )
