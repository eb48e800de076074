"""Rows are added to those that a table has."""

from __future__ import annotations

from typing import ClassVar

from kseg.etl.dispositions.port import ByPartition, Claims, Disposition
from kseg.etl.ledger.ranges import common
from kseg.etl.ledger.state import RunState


class Append(Disposition):
    """Adds a row for each record; by the plan, no other run has landed these offsets."""

    def claim(self, claims: Claims, run: RunState, here: ByPartition, *, in_table: bool) -> None:
        if run.abandoned:
            return
        # The offsets that it was the first to land have no older rows: an abandoned replacement removed them.
        claims.replace(common(run.added, here))
        claims.land(run.run_id, here)


class AppendAgain(Append):
    """The same for offsets that may have landed before: an offset then has one row for each run."""

    adds_copies: ClassVar[bool] = True
