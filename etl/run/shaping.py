"""Events that a run writes to the ledger while it creates its tables, or gives tables without rows another shape.

    table is read ──► lease renewed ──► the table's next version ──► table_shaped ──► rows are committed

Creating or changing a table and committing rows are commits of their own, with a transition of the ledger in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.table_shaped import TableShaped
from kseg.etl.run.context import JobContext
from kseg.etl.tables.values import KnownTable


class TableShaping:
    """The tables of one attempt, in which its run has not landed yet."""

    def __init__(self, context: JobContext, lease: Lease) -> None:
        self._context, self._lease = context, lease
        self._changed: set[str] = set()

    def known(self, plan: ev.RunPlan, table: str) -> KnownTable:
        """The table's state before the run lands there."""
        state = self._context.clients.ledger.known(self._context.job.name)
        return KnownTable(plan.tables.get(table), state.table_records.get(table, ev.TableRecord()))

    def before(self, table: str) -> Callable[[], None]:
        """What is called before each try to change a table's shape. The lease is renewed in the ledger, after the
        table's version is read and before the next one is written: a process that has taken over by then, and abandons
        the run, commits that version."""

        def renew() -> None:
            self._context.observe(f"shape:{table}:before")
            self._lease.transition(lambda _: [ev.Renewed()])
            self._changed.add(table)
            self._context.observe(f"shape:{table}:renewed")

        return renew

    def confirm_lease(self, plan: ev.RunPlan, ready: Mapping[str, ev.TableState]) -> ev.RunPlan:
        """Write to the ledger between creating or changing tables and committing rows to them. Returns the plan with
        the tables' states.

        Abandoning a run takes its app transaction in all tables that exist, so that no attempt of it can land. A table
        that is created afterwards has no such commit, but the lease has been lost by then, and this transition fails.

        ready: the states of the tables, of which those are recorded that are not as planned: the table has another
        shape, or is another one, because the planned one was deleted before anything had landed in it.

        Raises:
            LeaseLost: another attempt has taken over.
        """
        planned = {table: plan.tables.get(table) for table in ready}
        changed = self._changed & ready.keys()
        shaped = [
            TableShaped(run_id=plan.run_id, table=table, state=ready[table])
            for table, before in planned.items()
            if before is not None and (before.id != ready[table].id or table in changed)
        ]
        if not shaped and None not in planned.values():
            return plan
        for table in sorted(changed):
            self._context.observe(f"shape:{table}:committed")
        after = self._lease.transition(lambda _: shaped or [ev.Renewed()])
        for table in sorted(changed):
            self._context.observe(f"shape:{table}:after")
        return after.runs[plan.run_id].plan
