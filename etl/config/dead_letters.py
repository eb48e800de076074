"""`sink.dead_letters`: where records that cannot be decoded land, and how many a run may have."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from kseg.etl.config.at_most import AtMost, NumberOrShare, at_most
from kseg.etl.config.continuation import AsPlanned, AtContinuation
from kseg.etl.config.values import Duration, Section, TablePath, at_least


class DeadLetters(Section):
    """Where records that cannot be decoded land. path: beside the table, unless given. max: how many a run may have.

    retention: how long `kseg maintain` leaves them there, from the end of their run; None: for ever.
    """

    path: AsPlanned[TablePath | None] = None
    max: AtContinuation[NumberOrShare] = "1%"
    retention: AtContinuation[Annotated[Duration, at_least(timedelta(days=1))] | None] = None

    @property
    def at_most(self) -> AtMost:
        return at_most(self.max)
