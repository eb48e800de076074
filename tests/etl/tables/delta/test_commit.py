from __future__ import annotations

import importlib
import json
import multiprocessing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Schema, Transaction, write_deltalake

from kseg.etl.errors import KsegError, Refused
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.events import TableState
from kseg.etl.refusals.tables import ACCEPT_TABLE
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.errors import IncompatibleSchema, NeedsSparkWriter, TableBusy
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.values import UNKNOWN_VERSION, FoundCommit, NewCommit, RunCommit

APP = "kseg/ledger/job"
spawn = multiprocessing.get_context("spawn")


def log_of(path: str, version: int) -> list[dict]:
    text = (Path(path) / f"_delta_log/{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


# --- one commit ------------------------------------------------------------------------------------------------------


def test_files_transaction_and_facts_stand_in_one_commit(lander, rows):
    table = lander()
    outcome = table.land(rows(0, 100))
    assert isinstance(outcome, NewCommit)
    commit = outcome.commit
    assert (commit.version, commit.rows, commit.files, commit.found) == (1, 100, 1, False)
    assert commit.after == table.target.state()
    actions = log_of(table.path, 1)
    assert [next(iter(action)) for action in actions] == ["commitInfo", "add", "txn"]
    assert actions[2]["txn"] == {"appId": APP, "version": 1}
    info = actions[0]["commitInfo"]
    assert (info["kseg"]["run"], info["kseg"]["rows"], info["kseg"]["ranges"]) == ("run-1", 100, [])
    assert json.loads(info["userMetadata"]) == {"kseg": "run-1", "rows": 100, "removed": 0}


def test_a_second_attempt_finds_the_first_ones_commit(lander, rows):
    table = lander()
    first = table.land(rows(0, 100))
    again = table.land(rows(0, 100), attempt=1)
    assert isinstance(again, FoundCommit)
    assert (again.commit.version, again.commit.rows, again.commit.after) == (1, 100, first.commit.after)
    assert again.commit.found
    assert len(table.offsets()) == 100


def test_a_commit_is_found_behind_others(lander, rows):
    table = lander()
    planned = table.target.ensure(sink_schema(rows().schema)).state
    first = table.land(rows(0, 10))
    for n in range(2, 5):
        table.land(rows(n * 10, n * 10 + 10), run_id=f"other-{n}", app="kseg/ledger/other", number=n)
    again = table.commit([], expected=planned)
    assert isinstance(again, FoundCommit)
    assert again.commit.version == first.commit.version
    assert again.commit.after == first.commit.after


def test_a_later_run_in_the_table_means_an_older_ledger(lander, rows):
    table = lander()
    table.land(rows(0, 10), number=7, run_id="run-7")
    with pytest.raises(Refused) as caught:
        table.land(rows(0, 10), number=6, run_id="run-6")
    assert caught.value.code == "ledger-older-than-table"
    assert len(table.offsets()) == 10


def test_a_run_without_rows_lands_too(lander, rows):
    table = lander()
    table.target.ensure(sink_schema(rows().schema))
    outcome = table.commit([])
    assert (outcome.commit.version, outcome.commit.rows) == (1, 0)
    assert table.target.transaction_version(APP) == 1
    assert isinstance(table.commit([]), FoundCommit)


def test_chains_do_not_see_each_other(lander, rows):
    table = lander()
    table.land(rows(0, 10), number=5)
    table.land(rows(10, 20), number=1, app="kseg/ledger/job/backfill-1", run_id="backfill-1")
    assert table.target.transaction_version(APP) == 5
    assert len(table.offsets()) == 20


def test_what_the_log_forgot_is_counted_in_the_table(lander, rows):
    table = lander()
    table.land(rows(0, 10))
    for n in range(2, 4):
        table.land(rows(n * 10, n * 10 + 5), run_id=f"run-{n}", app="kseg/ledger/other", number=n)
    table.target.load().create_checkpoint()
    for version in range(3):
        (Path(table.path) / f"_delta_log/{version:020d}.json").unlink()
    again = table.commit([])
    assert isinstance(again, FoundCommit)
    assert (again.commit.version, again.commit.rows) == (UNKNOWN_VERSION, 10)


def test_an_answer_lost_on_the_way_is_not_another_attempts_commit(lander, rows, monkeypatch):
    table = lander()
    files = table.write([rows(0, 10)])
    commit = DeltaTable.create_write_transaction

    def committed_but_no_answer(self, *args, **kwargs):
        commit(self, *args, **kwargs)
        raise OSError("connection reset")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", committed_but_no_answer)
    outcome = table.commit(files)
    assert isinstance(outcome, NewCommit)
    assert (outcome.commit.version, outcome.commit.rows, outcome.commit.found) == (1, 10, False)


def test_a_store_that_keeps_failing_is_told_after_the_deadline(lander, rows, monkeypatch):
    table = lander(deadline=0.1)
    files = table.write([rows(0, 10)])

    def away(self, *args, **kwargs):
        raise OSError("no route to host")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", away)
    with pytest.raises(TableBusy, match="no route to host") as caught:
        table.commit(files)
    assert caught.value.retriable


# --- somebody else's table -------------------------------------------------------------------------------------------


def test_a_table_that_forgets_transactions_is_refused(lander, rows):
    table = lander()
    table.land(rows(0, 10))
    table.target.load().alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 7 days"})
    for call in (
        lambda: table.commit([], number=2, run_id="run-2"),
        lambda: table.target.ensure(sink_schema(rows().schema)),
    ):
        with pytest.raises(Refused) as caught:
            call()
        assert caught.value.code == "transaction-retention-set"


def test_a_table_made_anew_since_the_plan_is_refused(lander, rows):
    table = lander()
    planned = table.target.ensure(sink_schema(rows().schema)).state
    files = table.write([rows(0, 10)])
    DeltaTable.create(table.path, table.target.load().schema(), mode="overwrite")
    with pytest.raises(Refused) as caught:
        table.commit(files, expected=planned)
    assert caught.value.code == "table-replaced"
    assert caught.value.remedy == ACCEPT_TABLE, "what the next run would say"


def test_a_table_that_vanished_is_refused(lander, rows):
    table = lander()
    with pytest.raises(Refused) as caught:
        table.commit([])
    assert caught.value.code == "table-missing"
    assert "restore the table" in caught.value.remedy


def test_a_restore_in_the_middle_of_a_commit_is_seen(lander, rows, monkeypatch):
    table = lander()
    table.land(rows(0, 10))
    planned = table.target.state()
    files = table.write([rows(10, 20)], "run-2")
    commit = DeltaTable.create_write_transaction

    def restored_just_before(self, *args, **kwargs):
        DeltaTable(table.path).restore(0)
        return commit(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", restored_just_before)
    with pytest.raises(Refused) as caught:
        table.commit(files, "run-2", 2, expected=planned)
    assert caught.value.code == "table-restored"
    assert table.target.transaction_version(APP) == 1


def test_a_table_whose_columns_changed_meanwhile_is_refused(lander, rows):
    table = lander()
    sink = sink_schema(rows().schema)
    ready = table.target.ensure(sink)
    files = table.write([rows(0, 10)])
    smaller = table.target.load().schema()
    write_deltalake(table.path, pa.table({"other": ["x"]}), mode="overwrite", schema_mode="overwrite")
    assert table.target.load().schema() != smaller
    with pytest.raises(Refused) as caught:
        table.commit(files, columns=ready.write.columns)
    assert caught.value.code == "table-changed"


def test_a_table_that_delta_rs_cannot_write_is_left_to_spark(lander, rows):
    table = lander()
    table.target.ensure(sink_schema(rows().schema))
    files = table.write([rows(0, 10)])
    table.target.load().alter.add_constraint({"positive": "offset >= 0"})
    with pytest.raises(NeedsSparkWriter) as caught:
        table.commit(files)
    assert caught.value.reasons == ("CHECK constraint positive",)
    assert table.target.spark_reasons() == caught.value.reasons


# --- other writers at the same time ----------------------------------------------------------------------------------


def test_a_log_that_contradicts_the_schema_is_an_error_of_the_table(lander, rows):
    table = lander()
    fields = [pa.field(f.name, f.type, nullable=f.name != "topic") for f in sink_schema(rows().schema).columns]
    DeltaTable.create(table.path, Schema.from_arrow(pa.schema(fields)), partition_by=["topic"])
    files = [replace(file, partition_values={"topic": None}) for file in table.write([rows(0, 5)])]
    with pytest.raises(KsegError, match="unmasked nulls") as caught:
        table.commit(files)
    assert caught.value.address["table"] == table.path
    with pytest.raises(KsegError, match=r"cannot read the table.*unmasked nulls"):
        table.target.load()


def test_other_writers_in_between_do_not_hinder(lander, rows, monkeypatch):
    table = lander()
    files = table.write([rows(0, 10)])
    commit = DeltaTable.create_write_transaction
    between = iter(range(3))

    def somebody_first(self, *args, **kwargs):
        if (n := next(between, None)) is not None:
            stranger = DeltaTable(table.path)
            properties = CommitProperties(app_transactions=[Transaction("stranger", n)])
            commit(stranger, [], "append", stranger.schema(), commit_properties=properties)
        return commit(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", somebody_first)
    outcome = table.commit(files)
    assert isinstance(outcome, NewCommit)
    assert outcome.commit.version == 4
    assert log_of(table.path, 4)[-1]["txn"] == {"appId": APP, "version": 1}
    assert len(table.offsets()) == 10


def test_a_suspended_attempt_cannot_land_after_another_one(lander, rows, monkeypatch):
    table = lander()
    mine = table.write([rows(0, 10)], attempt=0)
    other = table.write([rows(0, 10)], attempt=1)
    commit = DeltaTable.create_write_transaction
    suspended = [True]

    def woken_up_late(self, *args, **kwargs):
        if suspended.pop() if suspended else False:
            # All checks were made, and the process slept; meanwhile another attempt lands.
            assert isinstance(table.commit(other), NewCommit)
        return commit(self, *args, **kwargs)

    monkeypatch.setattr(DeltaTable, "create_write_transaction", woken_up_late)
    assert isinstance(table.commit(mine), FoundCommit)
    assert len(table.offsets()) == 10


def test_a_suspended_attempt_that_had_read_the_table_finds_the_fence(lander, rows, monkeypatch):
    table = lander()
    mine = table.write([rows(0, 10)])
    planned = table.target.state()
    commit = DeltaTable.create_write_transaction
    suspended = [True]

    def woken_up_late(self, *args, **kwargs):
        if suspended.pop() if suspended else False:
            DeltaTarget(table.path).fence("run-1")
        return commit(self, *args, **kwargs)

    def holds():
        raise LeaseLost("the lease was taken over")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", woken_up_late)
    with pytest.raises(LeaseLost):
        table.commit(mine, expected=planned, holds=holds)
    assert (table.target.state().version, table.offsets()) == (planned.version + 1, [])


@pytest.mark.parametrize("lost", [0, 1], ids=["whole", "cleaned"])
def test_where_the_log_was_cleaned_there_may_have_been_a_fence(lander, rows, lost):
    table = lander()
    mine = table.write([rows(0, 10)])
    planned = table.target.state()
    for number in range(3):
        table.commit([], f"run-{number + 2}", app=f"{APP}/run-{number + 2}")
    if lost:
        DeltaTable(table.path).create_checkpoint()
        for version in range(3):
            (Path(table.path) / f"_delta_log/{version:020d}.json").unlink()
    asked = []
    table.commit(mine, expected=planned, holds=lambda: asked.append(1))
    assert len(asked) == lost


@pytest.fixture
def racer(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    return importlib.import_module("racer")


def _race(work, arguments):
    """Run `work` in one process for each tuple of arguments, side by side; returns what they all put."""
    results, barrier = spawn.Queue(), spawn.Barrier(len(arguments))
    racers = [spawn.Process(target=work, args=(*given, barrier, results)) for given in arguments]
    for racer in racers:
        racer.start()
    found = [results.get(timeout=120) for given in arguments for _ in given[1]]
    for racer in racers:
        racer.join()
    return found


def test_of_processes_that_race_one_lands(lander, rows, scale, racer):
    table = lander()
    table.target.ensure(sink_schema(rows().schema))
    numbers = range(1, scale(10, 100) + 1)
    batches = {n: rows(n * 10, n * 10 + 10) for n in numbers}
    attempts = [
        [
            (
                table.write([batches[n]], f"run-{n}", attempt=attempt),
                RunCommit(f"run-{n}", f"kseg/ledger/job/run-{n}", 1),
            )
            for n in numbers
        ]
        for attempt in range(3)
    ]
    found = _race(racer.commit, [(table.path, rounds) for rounds in attempts])
    for n in numbers:
        outcomes = sorted(outcome for run, outcome in found if run == f"run-{n}")
        assert outcomes == ["FoundCommit", "FoundCommit", "NewCommit"]
    assert [offset for _, _, offset in table.offsets()] == list(range(10, len(numbers) * 10 + 10))


# --- making the table ------------------------------------------------------------------------------------------------


def test_of_processes_that_create_the_table_one_does(lander, rows, scale, racer):
    paths = [lander(f"table-{number}").path for number in range(scale(10, 50))]
    found = _race(racer.ensure, [(rows().schema, paths)] * 3)
    assert set(found) == {(path, DeltaTarget(path).state().id, 0) for path in paths}


def test_merged_columns_come_before_the_data_and_once(lander, rows):
    table = lander()
    table.land(rows(0, 10))
    wider = rows(10, 20).append_column("body", pa.array(["b"] * 10))
    with pytest.raises(IncompatibleSchema, match="no such column"):
        table.write([wider])
    outcome = table.land(wider, run_id="run-2", number=2, merge_schema=True)
    assert outcome.commit.version == 3
    assert table.target.ensure(sink_schema(wider.schema), merge_schema=True).state.version == 3
    by_body = pa.table(table.target.load().scan(columns=["offset", "body"]).read_all()).to_pylist()
    assert {r["offset"]: r["body"] for r in by_body} == {n: "b" if n >= 10 else None for n in range(20)}
    # Rows without the new column still fit.
    table.land(rows(20, 30), run_id="run-3", number=3)
    assert len(table.offsets()) == 30


def test_partitioning_must_be_the_tables(lander, rows):
    table = lander()
    table.land(rows(0, 10), partition_by=["topic"])
    with pytest.raises(IncompatibleSchema, match="partitioned by topic"):
        table.write([rows(0, 10)], partition_by=["partition"])
    table.land(rows(10, 20), run_id="run-2", number=2)
    assert len(table.offsets()) == 20


def test_wide_tables_keep_statistics_of_the_address(lander):
    table = lander()
    fields = [(f"c{i}", pa.int8()) for i in range(40)]
    schema = pa.schema([*fields, ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    arrays = [pa.array([1], pa.int8())] * 40 + [pa.array(["t"]), pa.array([0], pa.int32()), pa.array([5])]
    table.land(pa.record_batch(arrays, schema=schema))
    actions = pa.table(table.target.load().get_add_actions(flatten=True))
    assert actions.column("min.offset").to_pylist() == [5]


def test_times_without_a_zone_land(lander, rows):
    table = lander()
    batch = rows(0, 3).append_column("local", pa.array([1, 2, None], pa.timestamp("us")))
    table.land(batch)
    assert table.target.load().protocol().writer_features == ["timestampNtz"]
    assert table.target.spark_reasons() == ()


# --- state -----------------------------------------------------------------------------------------------------------


def test_state_tells_id_version_and_rows(lander, rows):
    table = lander()
    assert table.target.state() is None
    assert table.target.transaction_version(APP) is None
    table.land(rows(0, 10))
    state = table.target.state()
    assert state == TableState(table.target.load().metadata().id, 1, 10)
    assert table.target.state_at(0) == TableState(state.id, 0, 0)
    assert table.target.state_at(9) is None
    assert table.target.rows_of_run("run-1") == 10
    assert table.target.rows_of_run("run-2") == 0


def test_rows_are_unknown_where_a_file_has_no_statistics(lander, rows):
    from deltalake.transaction import AddAction

    table = lander()
    (file,) = table.write([rows(0, 10)])
    loaded = table.target.load()
    action = AddAction(file.path, file.size, {}, file.modified_ms, True, "{}")
    loaded.create_write_transaction([action], "append", loaded.schema())
    assert table.target.state().rows is None


def test_a_found_commit_has_landed_this_tables_ranges(lander, rows):
    """Two routes to one table by two names have one app transaction: the second's rows are not there."""
    table = lander()
    first = table.write([rows(0, 10)])
    ranges = {"ranges": [["orders", 0, 0, 10]]}
    table.target.commit(first, RunCommit("run-1", APP, 1, ranges))
    assert isinstance(table.target.commit(first, RunCommit("run-1", APP, 1, ranges)), FoundCommit)
    others = RunCommit("run-1", APP, 1, {"ranges": [["returns", 0, 0, 10]]})
    for refused in (lambda: table.target.commit([], others), lambda: table.target.found_commit(others)):
        with pytest.raises(Refused) as caught:
            refused()
        assert caught.value.code == "commit-of-other-ranges"
