"""The event of a run that has given an empty table its shape, and what it changes in the run's plan."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kseg.etl.ledger.events import Event
from kseg.etl.ledger.state import RunState
from kseg.etl.ledger.values import TableState


@dataclass(frozen=True, slots=True, kw_only=True)
class TableShaped(Event):
    """An unfinished run has given a planned table, in which nothing had landed, the columns and partitions of its rows;
    or has created it again, where it had been deleted. state: the table's, which takes the place of the planned one.
    """

    KIND = "table_shaped"

    table: str
    state: TableState


def with_shape(run: RunState, event: TableShaped) -> RunState:
    """The run with the table's new state in its plan."""
    return replace(run, plan=replace(run.plan, tables={**run.plan.tables, event.table: event.state}))
