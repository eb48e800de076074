"""The phases of a run that each event may follow, and the modes that land an offset once."""

from __future__ import annotations

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.schemas import SchemasAdded
from kseg.etl.ledger.state import Phase
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

LANDS_ONCE: frozenset[ev.Mode] = frozenset({"incremental", "interval", "backfill-missing"})
"""Modes that never plan an offset that has landed."""
