"""The names of a job's tables in its ledger. A table that was moved, and landed in by its new name since, has two."""

from __future__ import annotations

from collections.abc import Mapping

from kseg.etl.ledger.values import TableState


def current_names(tables: Mapping[str, TableState]) -> list[str]:
    """One name of each table, sorted: that of its newest state.

    tables: `JobState.tables`.
    """
    newest: dict[str, str] = {}
    for name, table in tables.items():
        before = newest.get(table.id)
        if before is None or tables[before].version <= table.version:
            newest[table.id] = name
    return sorted(newest.values())
