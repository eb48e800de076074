"""Landing, step by step, without Spark."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import RunState
from kseg.etl.run.account import ReadCounts
from kseg.etl.run.attempt import Attempt
from kseg.etl.run.land import _Landing, land_and_account
from kseg.etl.run.range_jobs import Written
from kseg.etl.run.row_counts import TaskRows
from kseg.etl.tables.errors import log_damaged
from kseg.etl.telemetry.progress import NULL_PROGRESS

NOTHING = cast("Any", None)
PLAN = ev.RunPlan("r", "incremental", ev.INCREMENTAL, "kseg/l/j", 1, "", "{}", None, {}, (), {})


def test_a_run_whose_account_was_written_though_the_store_did_not_say_so_has_landed() -> None:
    run = RunState(PLAN, datetime.now(UTC), accounted=ev.Accounted(run_id="r", ranges=(), rows_in=0, rows_out=0))
    assert land_and_account(NOTHING, NOTHING, run, earlier_attempt=True).run is run


def test_rows_that_a_writer_lost_stop_the_run_before_anything_lands() -> None:
    """Behind a transform nothing would tell of them once the table has landed, and its tasks are not repeated."""
    noted: list[Any] = []
    lease = SimpleNamespace(transition=lambda decide: noted.extend(decide(None)))
    job = SimpleNamespace(transform=())
    context = SimpleNamespace(progress=NULL_PROGRESS, job=job)
    landing = _Landing(Attempt(cast("Any", context), cast("Any", lease), PLAN, {}, False))
    reading = ReadCounts(accounts=(), gaps=(), lost=(), rows_in=10)
    landing._check_rows_before_commits(Written(tasks=(TaskRows(0, None, 10, 10, (1,)),)), reading)
    assert not noted
    with pytest.raises(Refused) as caught:
        landing._check_rows_before_commits(Written(tasks=(TaskRows(0, None, 10, 9, (1,)),)), reading)
    assert caught.value.code == "account-failed"
    (event,) = noted
    assert (event.KIND, event.equation) == ("account_failed", "rows")


@pytest.mark.parametrize("earlier", [True, False])
def test_a_damaged_table_that_the_run_has_landed_in_is_put_back_or_its_run_abandoned(earlier: bool) -> None:
    """Accepting the table is refused as long as the run has not ended."""

    def read(*_: Any) -> Any:
        raise log_damaged("/t", "_delta_log/1.json")

    state = ev.TableState(id="t", version=1, rows=0)
    commits = {"/t": ev.TableCommit(1, rows=0, after=state, found=True)}
    access = SimpleNamespace(recorded_commit=read)
    targets = SimpleNamespace(check_landed=read, access=lambda _: access)
    plan = replace(PLAN, tables={"/t": state})
    job = SimpleNamespace(transform=(), quarantine=None, dead_letters=None)
    attempt = Attempt(cast("Any", SimpleNamespace(targets=targets, job=job)), NOTHING, plan, commits, True)
    reading = ReadCounts(accounts=(), gaps=(), lost=(), rows_in=0)
    step = attempt.find_earlier_commits if earlier else partial(_Landing(attempt)._table_rows, reading)
    with pytest.raises(Refused) as caught:
        step()
    remedy = str(caught.value.remedy)
    assert remedy.startswith("put the file back")
    assert "then abandon run r," in remedy
    assert "`kseg repair JOB --abandon r`" in remedy
    assert "--accept-table" not in remedy
