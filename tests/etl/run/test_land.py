"""Landing: what a try finds that follows another one of the same process."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import RunState
from kseg.etl.run.land import land_and_account

NOTHING = cast("Any", None)


def test_a_run_whose_account_was_written_though_the_store_did_not_say_so_has_landed() -> None:
    plan = ev.RunPlan("r", "incremental", ev.INCREMENTAL, "kseg/l/j", 1, "", "{}", None, {}, (), {})
    run = RunState(plan, datetime.now(UTC), accounted=ev.Accounted(run_id="r", ranges=(), rows_in=0, rows_out=0))
    assert land_and_account(NOTHING, NOTHING, run, again=True).run is run
