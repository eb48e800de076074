"""Tables as a plan examines them: what they are called, and what they have landed. Without brokers or Spark."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.fold import Entry, fold
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.preflight import examine_tables, preflight
from kseg.etl.tables.delta.snapshots import Snapshot
from kseg.etl.tables.targets import Targets

APP = "kseg/ledger/job"


def append(table: Path, app: str | None = None, version: int = 1) -> ev.TableState:
    """One row, of an app or of somebody else."""
    properties = CommitProperties(app_transactions=[Transaction(app, version)] if app is not None else None)
    write_deltalake(table, pa.table({"n": [1]}), mode="append", commit_properties=properties)
    return Snapshot(table).state()


class Ledger:
    """A job's state, and runs that are in it from their plan to their landing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = JobState(job="job", ledger_id="ledger")

    @property
    def job(self) -> Any:
        sink = SimpleNamespace(routed=False)
        return SimpleNamespace(name="job", group=None, ledger=str(self.folder / "ledger"), sink=sink)

    def targets(self) -> Targets:
        return Targets(self.job, _no_spark)

    def add(self, *events: ev.Event) -> None:
        self.state = fold(self.state, [Entry(event, datetime.now(UTC), self.state.sequence + 1) for event in events])

    def run(self, name: str, table: str, *, chain: str = ev.INCREMENTAL, land: bool = True) -> None:
        """Plan a run over this table, and land it there."""
        path = self.folder / table
        app_id, version = self.state.next_app_transaction(chain)
        seen = self.examine(table, chain=chain)[str(path)]
        attempt = self.state.next_attempt(chain)
        signed = {"chain": chain, "run_id": name, "owner": "me", "attempt": attempt}
        plan = ev.RunPlan(
            run_id=name,
            mode="incremental" if chain == ev.INCREMENTAL else "backfill-append",
            chain=chain,
            app_id=app_id,
            app_version=version,
            config_hash="",
            pinned_config="",
            cluster_id=None,
            topics={},
            ranges=(),
            tables={str(path): seen},
        )
        self.add(ev.Leased(**{**signed, "run_id": ""}, duration=60.0), ev.Planned(**signed, plan=plan))
        if not land:
            return
        commit = ev.TableCommit(0, 1, append(path, app_id, version))
        self.add(
            ev.Landed(**signed, table=str(path), commit=commit),
            ev.Accounted(**signed, ranges=(), rows_in=1, rows_out=1),
            ev.Finished(**signed),
        )

    def examine(
        self, *tables: str, chain: str = ev.INCREMENTAL, state: JobState | None = None
    ) -> dict[str, ev.TableState | None]:
        inputs: Any = SimpleNamespace(
            tables=self.targets(),
            job=self.job,
            read_state=lambda: state or self.state,
        )
        names = [name if "://" in name else str(self.folder / name) for name in tables]
        return examine_tables(inputs, state or self.state, chain, names)


def _no_spark() -> Any:
    raise AssertionError("no table here needs Spark")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


# --- names


def test_two_names_of_one_table_are_refused(ledger: Ledger, tmp_path: Path) -> None:
    append(tmp_path / "orders")
    (tmp_path / "alias").symlink_to(tmp_path / "orders")
    with pytest.raises(ConfigurationError) as caught:
        ledger.examine("orders", "alias")
    assert str(tmp_path / "orders") in str(caught.value)
    assert str(tmp_path / "alias") in str(caught.value)
    assert len(ledger.examine("orders")) == 1


def test_two_names_of_one_place_are_refused_before_there_is_a_table(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "alias").symlink_to(tmp_path / "lake")
    with pytest.raises(ConfigurationError):
        ledger.examine("lake/orders", "alias/orders")
    assert ledger.examine("lake/orders", "lake/returns") == {
        str(tmp_path / "lake/orders"): None,
        str(tmp_path / "lake/returns"): None,
    }


@pytest.mark.parametrize("names", [("lake", "lake/orders"), ("link/a/b", "lake/a"), ("lake/orders/in", "lake/orders")])
def test_a_table_inside_another_is_refused(names: tuple[str, str], ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    with pytest.raises(ConfigurationError, match="lies inside"):
        ledger.examine(*names)
    assert len(ledger.examine("lake/a", "lake/b", "lake/ab")) == 3


def test_a_copy_of_a_table_by_its_files_is_the_same_table(ledger: Ledger, tmp_path: Path) -> None:
    append(tmp_path / "orders")
    shutil.copytree(tmp_path / "orders", tmp_path / "copy")
    with pytest.raises(ConfigurationError):
        ledger.examine("orders", "copy")


def test_what_happened_to_a_table_is_noticed_under_another_name(ledger: Ledger, tmp_path: Path) -> None:
    for name in ("r1", "r2"):
        ledger.run(name, "orders")
    (tmp_path / "alias").symlink_to(tmp_path / "orders")
    assert len(ledger.examine("alias")) == 1
    DeltaTable(tmp_path / "orders").restore(0)
    with pytest.raises(Refused) as caught:
        ledger.examine("alias")
    assert caught.value.code == "table-restored"


# --- places


def preflight_of(ledger: Ledger, **sink: Any) -> Any:
    """Up to the examination of the tables, of which `ledger` alone is missing."""
    job = ledger.job
    job.sink = SimpleNamespace(routed=False, tables_of=lambda _: tuple(sink.values()))
    job.spark, job.dead_letters, job.quarantine = SimpleNamespace(remote=None), None, None
    inputs: Any = SimpleNamespace(job=job, tables=None, snapshot=lambda _: SimpleNamespace(topics=["t"]))
    return preflight(inputs, ledger.state, ev.INCREMENTAL)


@pytest.mark.parametrize("unwritable", ["ledger", "orders"])
def test_a_place_without_the_right_to_write_fails_the_plan(
    unwritable: str, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run read and decoded all its records before its commit failed; a dry run found nothing."""
    (tmp_path / unwritable).mkdir()
    monkeypatch.setattr(os, "access", lambda path, *_, **__: Path(path).name != unwritable)
    with pytest.raises(ConfigurationError, match=f"may not write to {tmp_path / unwritable}") as caught:
        preflight_of(ledger, path=str(tmp_path / "orders"))
    assert caught.value.faults[0].path == ("ledger" if unwritable == "ledger" else "sink")


# --- an older ledger


@pytest.mark.parametrize("cleaned", [False, True])
def test_a_run_that_the_ledger_does_not_know_is_refused_for_every_chain(
    cleaned: bool, ledger: Ledger, tmp_path: Path
) -> None:
    """The log is read from the last plan on; where it was cleaned since, from its checkpoint."""
    ledger.run("r1", "orders")
    before = ledger.state
    ledger.run("b1", "orders", chain="b1")
    append(tmp_path / "orders")
    if cleaned:
        clean_log(tmp_path / "orders")
    assert len(ledger.examine("orders")) == 1
    for chain in (ev.INCREMENTAL, "b1", "b2"):
        with pytest.raises(Refused) as caught:
            ledger.examine("orders", chain=chain, state=before)
        assert caught.value.code == "ledger-older-than-table"
        assert f"{APP}/b1" in caught.value.message


def test_apps_of_others_are_nobodys_concern(ledger: Ledger, tmp_path: Path) -> None:
    ledger.run("r1", "orders")
    for app in ("kseg/ledger/job-2", "kseg/ledger/job-2/b1", "kseg/other/job/b1", "theirs"):
        append(tmp_path / "orders", app, 7)
    assert len(ledger.examine("orders")) == 1
    clean_log(tmp_path / "orders")
    assert len(ledger.examine("orders")) == 1


def test_a_run_that_was_planned_and_did_not_land_is_known(ledger: Ledger, tmp_path: Path) -> None:
    ledger.run("r1", "orders")
    ledger.run("b1", "orders", chain="b1", land=False)
    append(tmp_path / "orders", f"{APP}/b1", 1)
    assert len(ledger.examine("orders")) == 1


@pytest.mark.parametrize("cleaned", [False, True])
def test_runs_of_another_ledger_of_the_job_are_found(cleaned: bool, ledger: Ledger, tmp_path: Path) -> None:
    """Also where the log no longer goes back to them."""
    append(tmp_path / "orders", "kseg/lost/job2", 7)
    targets = ledger.targets()
    targets.refuse_other_ledger(str(tmp_path / "orders"), {"ledger"})
    append(tmp_path / "orders", "kseg/lost/job/b1", 1)
    if cleaned:
        clean_log(tmp_path / "orders")
    targets.refuse_other_ledger(str(tmp_path / "orders"), {"ledger", "lost"})
    with pytest.raises(Refused) as caught:
        targets.refuse_other_ledger(str(tmp_path / "orders"), {"ledger"})
    assert caught.value.code == "ledger-lost"


# --- an older table


def test_a_table_put_back_from_a_copy_is_refused_although_others_have_overtaken_it(
    ledger: Ledger, tmp_path: Path
) -> None:
    ledger.run("r1", "orders")
    shutil.copytree(tmp_path / "orders", tmp_path / "copy")
    ledger.run("r2", "orders")
    ledger.run("b1", "orders", chain="b1")
    shutil.rmtree(tmp_path / "orders")
    (tmp_path / "copy").rename(tmp_path / "orders")
    for _ in range(5):
        append(tmp_path / "orders", "kseg/other/job2", 1)
    for chain in (ev.INCREMENTAL, "b2"):
        with pytest.raises(Refused) as caught:
            ledger.examine("orders", chain=chain)
        assert caught.value.code == "table-older-than-ledger"
        assert "--accept-table" in str(caught.value.remedy)


def clean_log(table: Path) -> None:
    """What Delta does with entries that a checkpoint replaces, once they are old."""
    DeltaTable(table).create_checkpoint()
    append(table)
    DeltaTable(table).create_checkpoint()
    for version in range(DeltaTable(table).version()):
        (table / f"_delta_log/{version:020d}.json").unlink(missing_ok=True)
        (table / f"_delta_log/{version:020d}.checkpoint.parquet").unlink(missing_ok=True)
