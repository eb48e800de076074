"""The checks that every plan begins with: brokers, tables and group as they are now, compared with the ledger.

Imports neither Spark nor the record decoder, so that `kseg plan` starts quickly.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.inputs import InputReader
from kseg.etl.planning.plan import PlanInputs
from kseg.etl.planning.source_identity import check_epochs
from kseg.etl.tables.parallel import parallel_map

T = TypeVar("T")


def preflight(inputs: InputReader, state: JobState, chain: str, *, accept_group_offsets: bool = False) -> PlanInputs:
    """The inputs for a plan of this chain, checked against a ledger state that was read before.

    Raises:
        Refused: a table is not what the ledger left (restored, replaced, overwritten, gone), was landed with a later
            state of this ledger or with another one, or a topic is not the one that the ledger knows.
    """
    job, target_tables = inputs.job, inputs.tables
    snapshot = inputs.snapshot()
    tables = {str(job.sink.target(topic)) for topic in snapshot.topics}
    if job.quarantine is not None:
        tables.add(job.quarantine)
    if not state.bases and not accept_group_offsets:
        parallel_map(sorted(tables), lambda table: target_tables.refuse_other_ledger(table, state.ledger_id))
    chains = {ev.INCREMENTAL, chain}
    apps = [state.next_app_transaction(of)[0] for of in chains]
    found = parallel_map(sorted(tables), lambda table: target_tables.describe(table, state.tables.get(table), apps))
    group = inputs.group_view(snapshot.partitions, accept=accept_group_offsets)
    seen = PlanInputs(job, snapshot, {table: now.state for table, now in found.items()}, group)
    check_epochs(inputs.logs, snapshot, state)
    # Read after the tables: every run is planned in the ledger before it can land.
    _refuse_older_ledger(inputs.read_state(), chains, {table: now.transactions for table, now in found.items()})
    return seen


def read_without_lease(read_state: Callable[[], JobState], read: Callable[[JobState], T]) -> T:
    """Call a function that writes nothing, and so needs no lease, with the job's current state.

    Other runs may land and commit between the read of the state and the function's own reads, which then look as if the
    ledger had been rolled back. So a Refused is raised only if the ledger has not changed; otherwise both are repeated.

    Raises:
        Refused: as `read` does.
    """
    while True:
        state = read_state()
        try:
            return read(state)
        except Refused:
            if read_state().sequence == state.sequence:
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
