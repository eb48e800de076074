"""Selects the disposition of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.dispositions.append import Append, AppendAgain
from kseg.etl.dispositions.port import Disposition
from kseg.etl.dispositions.replace import Replace
from kseg.etl.ledger.values import Mode, RunPlan

APPEND: Final = Append()
"""The disposition of tables that only ever grow: damaged bytes and dead letters."""

_BY_MODE: Final[Mapping[Mode, Disposition]] = {
    "incremental": APPEND,
    "interval": APPEND,
    "backfill-missing": APPEND,
    "redrive": APPEND,
    "backfill-append": AppendAgain(),
    "backfill-replace": Replace(),
}


def disposition_of(plan: RunPlan) -> Disposition:
    """The disposition of the rows that a run lands."""
    return _BY_MODE[plan.mode]
