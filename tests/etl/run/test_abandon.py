"""Abandoning a run, without Spark: which rows go, whatever a suspended attempt did meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.run_ids import request_run_id
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.run import abandon
from kseg.etl.run.deadline import RunDeadline
from kseg.etl.run.live_view import LiveView
from kseg.etl.run.report import RunReport
from kseg.etl.tables.targets import Targets

RUN = request_run_id("L", "job", "0" * 32)
APP = f"kseg/L/job/{RUN}"
TP = TopicPartition("orders", 0)


def land(path: str, run_id: str, app: str, version: int, mode: str) -> None:
    rows = pa.table({"topic": ["orders"], "partition": pa.array([0], pa.int32()), "offset": [5], "_kseg_run": [run_id]})
    details = {"run": run_id, "rows": 1, "mode": mode, "ranges": [["orders", 0, 0, 10]]}
    properties = CommitProperties(custom_metadata={"kseg": details}, app_transactions=[Transaction(app, version)])
    write_deltalake(path, rows, mode="append", commit_properties=properties)


@pytest.fixture
def abandoned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """abandoned(mode): of a run that landed after `abandoning` was noted, and whose entries are cleaned up since.

    planned: whether it was planned for the table, which else is the quarantine table that the job has got since.
    """

    def do(mode: ev.Mode, *, planned: bool = True) -> tuple[ev.Abandoned, DeltaTable]:
        path = str(tmp_path / "orders")
        land(path, "other", "kseg/x/y", 1, "incremental")
        before = ev.TableState(str(DeltaTable(path).metadata().id), 0, 1)
        land(path, RUN, APP, 1, mode)
        land(path, "other", "kseg/x/y", 2, "incremental")
        DeltaTable(path).create_checkpoint()
        for version in range(2):
            (Path(path) / f"_delta_log/{version:020d}.json").unlink()
        tables = {path: before} if planned else {}
        ranges = (ev.PlannedRange("orders", 0, 0, 10, table=path),)
        plan = ev.RunPlan(RUN, mode, RUN, APP, 1, "", "{}", None, {}, ranges, tables)
        run = RunState(plan, datetime.now(UTC), abandoning=True, landed_in=())
        job = job_from_document(
            {
                "version": 1,
                "name": "job",
                "kafka": {"bootstrap.servers": "localhost:1"},
                "source": {"topics": ["orders"], **({} if planned else {"on_corruption": "quarantine"})},
                "sink": {"path": path} if planned else {"path": f"{path}2", "quarantine": {"path": path}},
                "ledger": str(tmp_path / "ledger"),
            }
        )
        state = JobState("job", "L", runs={RUN: run}, tables=tables)
        clients = SimpleNamespace(read_state=lambda: state)
        targets = Targets(job, cast("Any", None))
        noted: list[Any] = []
        lease = SimpleNamespace(
            check=lambda: None, read=lambda: state, transition=lambda decide: noted.extend(decide(state))
        )
        monkeypatch.setattr(abandon, "report_of", lambda *_, **__: RunReport("job", RUN, "", "abandoned"))
        deadline = RunDeadline(job.run.deadline)
        context = SimpleNamespace(job=job, clients=clients, targets=targets, deadline=deadline)
        abandon.abandon_run(cast("Any", context), cast("Any", lease), run, "test")
        return noted[-1], DeltaTable(path)

    return do


@pytest.mark.parametrize("mode", ["incremental", "backfill-replace"])
def test_rows_that_landed_late_go_although_the_history_does_not_tell_of_them(
    mode: ev.Mode, abandoned: Callable[..., Any]
) -> None:
    event, table = abandoned(mode)
    assert table.to_pyarrow_table()["_kseg_run"].to_pylist() == ["other", "other"]
    assert event.landed_in == tuple(event.tables)


def test_rows_in_a_quarantine_table_that_the_job_has_got_since_go_too(abandoned: Callable[..., Any]) -> None:
    event, table = abandoned("incremental", planned=False)
    assert table.to_pyarrow_table()["_kseg_run"].to_pylist() == ["other", "other"]
    assert event.landed_in == tuple(event.tables)


@pytest.mark.parametrize("held", [True, False])
def test_what_another_process_has_landed_since_is_no_refusal_of_a_process_without_its_lease(held: bool) -> None:
    """It was told that its ledger is older than the table, and to restore a newer one."""

    def read() -> None:
        if not held:
            raise LeaseLost("the lease was taken over")

    def refuse(_: Any) -> None:
        raise Refused("ledger-older-than-table", "a later plan has landed")

    target = SimpleNamespace(exclusively=lambda *_, **__: nullcontext(), remove_run=refuse)
    context = SimpleNamespace(
        targets=SimpleNamespace(target_without=lambda *_: target), deadline=RunDeadline(timedelta(minutes=1))
    )
    plan = ev.RunPlan(RUN, "backfill-missing", RUN, APP, 1, "", "{}", None, {}, (), {"t": None})
    run = RunState(plan, datetime.now(UTC), abandoning=True, landed_in=("t",))
    with pytest.raises(Refused if held else LeaseLost):
        abandon._remove(cast("Any", context), cast("Any", SimpleNamespace(read=read)), run, "t", cast("Any", None))


@pytest.mark.parametrize("landed", ["t", "letters", "damaged", None])
def test_a_run_has_landed_where_any_of_its_tables_has_it(landed: str | None) -> None:
    """A run whose dead letters alone were committed, and not recorded, was abandoned without a question."""
    targets = SimpleNamespace(transaction_version=lambda table, _: int(table == landed))
    job = SimpleNamespace(quarantine=None, dead_letters=None)
    plan = ev.RunPlan(
        *(RUN, "incremental", RUN, APP, 1, "", "{}", None, {}, (), {"t": None}),
        quarantine="damaged",
        dead_letters="letters",
    )
    run = RunState(plan, datetime.now(UTC))
    assert LiveView(cast("Any", SimpleNamespace(job=job, targets=targets))).has_landed(run) is (landed is not None)
