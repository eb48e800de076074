"""Every mode of a run has a disposition, which agrees with what the ledger makes of the run."""

from __future__ import annotations

from typing import get_args

import pytest

from kseg.etl.dispositions.registry import disposition_of
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.modes import MODES, Mode


@pytest.mark.parametrize("mode", get_args(Mode))
def test_it_is_what_the_ledger_takes_the_run_for(mode: Mode) -> None:
    plan = ev.RunPlan("r", mode, "r", "kseg/l/j/r", 1, "", "{}", None, {}, (), {})
    disposition = disposition_of(plan)
    assert disposition.removes == plan.replaces
    assert not (disposition.removes or disposition.adds_copies) or not MODES[mode].lands_once


@pytest.mark.parametrize("mode", get_args(Mode))
def test_a_commit_has_a_row_for_each_that_was_landed(mode: Mode) -> None:
    plan = ev.RunPlan("r", mode, "r", "kseg/l/j/r", 1, "", "{}", None, {}, (), {})
    assert disposition_of(plan).rows_due(7) == (7, 7)
