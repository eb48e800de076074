"""The table protocol, asked of each implementation in the same words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.decoding.rules import NEWEST
from kseg.etl.errors import Refused
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.ledger.values import TableState, closed_app_id
from kseg.etl.rows.names import OWN_ADDRESS
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.file_names import FileOwner
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.parquet.task_output import read_task_output, written_files
from kseg.etl.tables.parquet.writer import LandingPlan, land
from kseg.etl.tables.protocol import FileTarget, FrameTarget, TableAccess
from kseg.etl.tables.removal import OfAddresses, Removal
from kseg.etl.tables.spark.writer import SparkTarget
from kseg.etl.tables.values import FileCount, FoundCommit, NewCommit, RunCommit, TableDescription

APP = "kseg/ledger/job"
FACTS = {"job": "job", "ledger": "ledger", "mode": "incremental"}

Rows = Callable[..., pa.RecordBatch]


class ByFiles:
    """Tasks write files, the driver commits them."""

    def __init__(self, path: str, _spark: Any) -> None:
        self.target: FileTarget = DeltaTarget(path)

    def ensure(self, batch: pa.RecordBatch, **options: Any) -> TableState:
        return self.target.ensure(sink_schema(batch.schema), **options).state

    def land(
        self, batch: pa.RecordBatch, run: RunCommit, expected: TableState | None, **how: Any
    ) -> NewCommit | FoundCommit:
        sink = sink_schema(batch.schema)
        ready = self.target.ensure(sink)
        outputs = land(iter([batch]), LandingPlan(run.owner, sink, (ready.write,)), task=0, attempt=0)
        files = written_files(output for part in outputs for output in read_task_output(part.to_pylist()))
        return self.target.commit(files, run, expected=expected, columns=ready.write.columns, **how)


class ByFrame:
    """Spark writes and commits a DataFrame."""

    def __init__(self, path: str, spark: Any) -> None:
        self.target: FrameTarget = SparkTarget(lambda: spark, path=path, single_driver=True)
        self._spark = spark

    def ensure(self, batch: pa.RecordBatch, **options: Any) -> TableState:
        return self.target.ensure(self._frame(batch), sink_schema(batch.schema), **options)

    def land(
        self, batch: pa.RecordBatch, run: RunCommit, expected: TableState | None, **how: Any
    ) -> NewCommit | FoundCommit:
        return self.target.land(self._frame(batch), sink_schema(batch.schema), run, expected=expected, **how)

    def _frame(self, batch: pa.RecordBatch) -> Any:
        return self._spark.createDataFrame(pa.Table.from_batches([batch]))


class Table:
    """A table of one implementation, and its reader."""

    def __init__(self, path: str, by: ByFiles | ByFrame) -> None:
        self.path, self.by, self.target = path, by, by.target
        self.access: TableAccess = DeltaAccess(path)

    def land(
        self,
        batch: pa.RecordBatch,
        run_id: str = "run-1",
        number: int = 1,
        *,
        app: str = APP,
        expected: TableState | None = None,
        remove: Removal | None = None,
        holds: Callable[[], object] | None = None,
    ) -> NewCommit | FoundCommit:
        return self.by.land(batch, RunCommit(run_id, app, number, FACTS), expected, remove=remove, holds=holds)

    def runs(self) -> dict[int, str]:
        """The run of each offset."""
        rows = self.access.read(["offset", "_kseg_run"], {"topic": "orders", "partition": 0})
        assert rows is not None
        assert len(set(rows.column("offset").to_pylist())) == rows.num_rows
        return {row["offset"]: row["_kseg_run"] for row in rows.to_pylist()}


@pytest.fixture(params=[ByFiles, ByFrame])
def table(request: pytest.FixtureRequest, tmp_path: Any) -> Table:
    path = str(tmp_path / "table")
    spark = request.getfixturevalue("spark") if request.param is ByFrame else None
    return Table(path, request.param(path, spark))


def test_a_table_is_made_once(table: Table, rows: Rows) -> None:
    assert table.access.describe([APP]) == TableDescription()
    assert table.access.read(["offset"], {}) is None
    assert list(table.access.history()) == []
    made = table.by.ensure(rows(0, 1))
    assert (made.version, made.rows) == (0, 0)
    assert table.by.ensure(rows(0, 1)) == made
    assert table.access.describe([APP]) == TableDescription(made)


def test_a_table_has_its_rules_of_decoding_from_before_its_first_row(table: Table, rows: Rows) -> None:
    made = table.by.ensure(rows(0, 1), properties=NEWEST.properties)
    assert made.version == 0, "in the commit that makes it"
    assert table.access.describe() == TableDescription(made, decoding_rules=NEWEST.version)


def test_an_empty_table_of_users_gets_its_rules_of_decoding(table: Table, rows: Rows) -> None:
    empty = table.by.ensure(rows(0, 1))
    assert table.access.describe().decoding_rules is None
    assert table.by.ensure(rows(0, 1), properties=NEWEST.properties).id == empty.id
    assert table.access.describe().decoding_rules == NEWEST.version
    assert list(table.access.incidents_since(empty, table.access.state())) == []


def test_rows_that_are_there_get_no_other_rules(table: Table, rows: Rows) -> None:
    table.by.ensure(rows(0, 1))
    landed = table.land(rows(0, 10)).commit.after
    assert table.by.ensure(rows(0, 1), properties=NEWEST.properties) == landed
    assert table.access.describe().decoding_rules is None


def test_a_run_commits_once_and_is_found_by_its_app_transaction(table: Table, rows: Rows) -> None:
    planned = table.by.ensure(rows(0, 1))
    first = table.land(rows(0, 10), expected=planned)
    assert isinstance(first, NewCommit)
    assert (first.commit.rows, first.commit.found, first.commit.after.rows) == (10, False, 10)
    again = table.land(rows(0, 10), expected=planned)
    assert isinstance(again, FoundCommit)
    assert (again.commit.version, again.commit.rows, again.commit.found) == (first.commit.version, 10, True)
    assert table.access.describe([APP, "others"]) == TableDescription(first.commit.after, {APP: 1})
    assert table.access.transaction_version(APP) == 1

    [record] = table.access.history(after=planned)
    assert record == table.access.recorded_commit(first.commit)
    assert (record.version, record.transactions) == (first.commit.version, {APP: 1})
    assert record.details.items() >= FACTS.items()

    table.land(rows(10, 20), "run-2", 2)
    with pytest.raises(Refused) as caught:
        table.land(rows(0, 10))
    assert caught.value.code == "ledger-older-than-table"
    assert set(table.runs()) == set(range(20))


def test_a_replacement_removes_rows_in_its_own_commit(table: Table, rows: Rows) -> None:
    table.by.ensure(rows(0, 1))
    first = table.land(rows(0, 10))
    removal = OfAddresses(OWN_ADDRESS, {TopicPartition("orders", 0): OffsetSet.of([(3, 6)])})
    outcome = table.land(rows(3, 6), "backfill", app=f"{APP}/backfill", remove=removal)
    assert (outcome.commit.rows, outcome.commit.removed, outcome.commit.after.rows) == (3, 3, 10)
    assert outcome.commit.version == first.commit.version + 1
    assert table.runs() == {n: "backfill" if 3 <= n < 6 else "run-1" for n in range(10)}
    assert table.access.incidents_since(first.commit.after, table.access.state()) == ()


def test_a_removed_run_cannot_land_any_more(table: Table, rows: Rows) -> None:
    table.by.ensure(rows(0, 1))
    table.land(rows(0, 10))
    table.land(rows(10, 15), "run-2", 2)
    removed = table.target.remove_run(RunCommit("run-2", APP, 2))
    assert (removed.removed, removed.after.rows) == (5, 10)
    assert table.target.remove_run(RunCommit("run-2", APP, 2)).found
    assert isinstance(table.land(rows(10, 15), "run-2", 2), FoundCommit)
    assert table.target.remove_run(RunCommit("run-3", APP, 3)).removed == 0
    assert isinstance(table.land(rows(20, 25), "run-3", 3), FoundCommit)
    assert set(table.runs()) == set(range(10))


def lost() -> None:
    raise LeaseLost("the lease was taken over")


def test_behind_a_fence_only_the_holder_of_the_lease_commits(table: Table, rows: Rows) -> None:
    planned = table.by.ensure(rows(0, 1))
    table.target.fence("run-1")
    fenced = table.access.describe([APP])
    assert (fenced.state, fenced.transactions) == (TableState(planned.id, planned.version + 1, 0), {})
    assert table.access.incidents_since(planned, fenced.state) == ()
    with pytest.raises(LeaseLost):
        table.land(rows(0, 10), expected=planned, holds=lost)
    table.target.fence("run-1")
    assert table.access.state() == TableState(planned.id, planned.version + 2, 0)
    assert isinstance(table.land(rows(0, 10), expected=planned, holds=lambda: None), NewCommit)
    assert set(table.runs()) == set(range(10))


def test_without_a_fence_no_commit_asks_for_its_lease(table: Table, rows: Rows) -> None:
    table.by.ensure(rows(0, 1))
    table.target.fence("run-0")
    planned = table.access.state()
    table.land(rows(10, 20), "run-9", app=f"{APP}/run-9")
    assert isinstance(table.land(rows(0, 10), expected=planned, holds=lost), NewCommit)


def test_the_rows_of_a_later_plan_of_the_same_run_stay(table: Table, rows: Rows) -> None:
    """A backfill that is abandoned and repeated has the same run id: an abandonment that was suspended before its
    commit removed the rows that the repeated one had landed since."""
    app = f"{APP}/run-1"
    table.by.ensure(rows(0, 1))
    table.land(rows(0, 10), app=app)
    assert table.target.remove_run(RunCommit("run-1", app, 1)).removed == 10
    table.land(rows(0, 10), "run-1", 2, app=app)
    with pytest.raises(Refused) as refused:
        table.target.remove_run(RunCommit("run-1", app, 1))
    assert refused.value.code == "ledger-older-than-table"
    assert set(table.runs()) == set(range(10))
    assert table.target.remove_run(RunCommit("run-1", app, 2)).removed == 10


@pytest.mark.parametrize("table", [ByFrame], indirect=True)
def test_the_rows_of_a_plan_that_lands_while_those_of_an_earlier_one_are_counted_stay(
    table: Table, rows: Rows, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's DELETE has no condition on the table's app transactions, so they are read once more before it."""
    app = f"{APP}/run-1"
    table.by.ensure(rows(0, 1))
    table.land(rows(0, 10), app=app)

    def counted(_: str) -> int:
        monkeypatch.undo()
        table.target.remove_run(RunCommit("run-1", app, 1))
        table.land(rows(0, 10), "run-1", 2, app=app)
        return 10

    monkeypatch.setattr(table.target, "rows_of_run", counted)
    with pytest.raises(Refused) as refused:
        table.target.remove_run(RunCommit("run-1", app, 1))
    assert refused.value.code == "ledger-older-than-table"
    assert set(table.runs()) == set(range(10))


def test_properties_of_a_table_with_rows_are_set_once(table: Table, rows: Rows) -> None:
    table.by.ensure(rows(0, 1))
    after = table.land(rows(0, 10)).commit.after
    for _ in range(2):
        table.target.set_properties({"kseg.decodingRules": "2"}, RunCommit("run-1", APP, 1))
        now = table.access.describe()
        assert now.state is not None
        assert (now.decoding_rules, now.state.version) == (2, after.version + 1)
    assert not table.access.incidents_since(after, now.state)
    assert len(table.runs()) == 10


def test_what_others_do_to_a_table_is_an_incident(table: Table, rows: Rows) -> None:
    table.by.ensure(rows(0, 1))
    after = table.land(rows(0, 10)).commit.after
    append = table.access.read(["key", "value", "topic", "partition", "offset"], {"offset": 3})
    assert append is not None
    write_deltalake(table.path, append, mode="append", schema_mode="merge")
    assert table.access.incidents_since(after, table.access.state()) == ()
    write_deltalake(table.path, append, mode="overwrite", schema_mode="merge")
    found = table.access.incidents_since(after, table.access.state())
    assert [incident.code for incident in found] == ["table-overwritten"]
    with pytest.raises(Refused) as caught:
        table.land(rows(10, 20), "run-2", 2, expected=after)
    assert caught.value.code == "table-overwritten"
    assert [incident.code for incident in table.access.incidents_since(after, None)] == ["table-missing"]


def test_files_that_no_commit_names_are_removed(table: Table, rows: Rows) -> None:
    assert table.access.clean_up(FileOwner("run-1", 1)) == FileCount()
    table.by.ensure(rows(0, 1))
    first = table.land(rows(0, 10)).commit
    assert table.access.clean_up(FileOwner("run-1", 1), [first]) == FileCount()
    assert len(table.runs()) == 10


def test_a_commit_is_looked_for_without_making_one(rows: Rows, tmp_path: Any) -> None:
    path = str(tmp_path / "table")
    table = Table(path, by := ByFiles(path, None))
    assert by.target.found_commit(RunCommit("run-1", APP, 1)) is None
    by.ensure(rows(0, 1))
    assert by.target.found_commit(RunCommit("run-1", APP, 1)) is None
    table.land(rows(0, 10))
    made = table.land(rows(10, 20), "run-2", 2).commit
    found = by.target.found_commit(RunCommit("run-2", APP, 2))
    assert found is not None
    assert (found.commit.version, found.commit.rows, found.commit.found) == (made.version, 10, True)
    assert by.target.found_commit(RunCommit("run-3", APP, 3)) is None
    with pytest.raises(Refused) as caught:
        by.target.found_commit(RunCommit("run-1", APP, 1))
    assert caught.value.code == "ledger-older-than-table"


@pytest.mark.parametrize("chain", ["", "/0123456789-0123456789abcdef0123"])
def test_no_run_of_a_ledger_that_was_replaced_lands(chain: str, table: Table, rows: Rows) -> None:
    """A suspended driver of a lost ledger lands what the one that was made in its place lands too."""
    table.by.ensure(rows(0, 1))
    table.land(rows(0, 10))
    for _ in range(2):  # a rebuilding that was interrupted begins again
        table.target.remove_run(RunCommit("ledger-rebuilt", closed_app_id(f"{APP}/x"), 1))
    with pytest.raises(Refused, match="a new ledger was made") as refused:
        table.land(rows(10, 20), "run-2", 2, app=APP + chain)
    assert refused.value.code == "ledger-older-than-table"
    assert set(table.runs()) == set(range(10))
    table.land(rows(10, 20), "run-2", app="kseg/new/job")
    assert set(table.runs()) == set(range(20))


def test_no_run_of_a_ledger_that_was_replaced_is_removed(table: Table, rows: Rows) -> None:
    """Its rows count as landed by the new ledger."""
    run_id = incremental_run_id("ledger", "job", 1)
    table.by.ensure(rows(0, 1))
    table.land(rows(0, 10), run_id)
    table.target.remove_run(RunCommit("ledger-rebuilt", closed_app_id(APP), 1))
    with pytest.raises(Refused, match="a new ledger was made"):
        table.target.remove_run(RunCommit(run_id, APP, 1))
    assert set(table.runs()) == set(range(10))


def test_the_commit_of_another_run_is_not_taken_for_the_runs_own(table: Table, rows: Rows) -> None:
    """Of two copies of a ledger that both plan, each gives the next run the same number."""
    table.by.ensure(rows(0, 1))
    table.land(rows(0, 10), "theirs")
    for way in (
        lambda: table.land(rows(0, 10), "ours"),
        lambda: table.target.remove_run(RunCommit("ours", APP, 1)),
    ):
        with pytest.raises(Refused, match="another copy of the ledger") as refused:
            way()
        assert refused.value.code == "ledger-older-than-table"
    assert set(table.runs()) == set(range(10))
