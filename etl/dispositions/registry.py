"""Selects the disposition of a run."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from kseg.etl.dispositions.append import Append
from kseg.etl.dispositions.port import Disposition
from kseg.etl.ledger.modes import MODES, RunMode
from kseg.etl.ledger.values import RunPlan

APPEND: Final = Append()
"""The disposition of tables that only ever grow: damaged bytes and dead letters."""


def disposition_of(plan: RunPlan) -> Disposition:
    """The disposition of the rows that a run lands."""
    return disposition_in(MODES[plan.mode])


@cache
def disposition_in(mode: RunMode) -> Disposition:
    """The disposition of all runs in a mode. Its module is loaded now."""
    module, _, name = mode.disposition.partition(":")
    disposition: Disposition = getattr(import_module(f"kseg.etl.dispositions.{module}"), name)()
    return disposition
