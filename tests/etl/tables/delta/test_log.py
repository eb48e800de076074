from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from delta_logs import MemoryLog
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.delta_log.entries import LogEntry, parse
from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.ledger.events import TableState
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.values import SnapshotToken
from kseg.etl.rows.names import OWN_ADDRESS
from kseg.etl.tables.delta.log import (
    Commit,
    commit_of,
    commits_back,
    find_transaction,
    incident_of,
    incidents_since,
    read_commit,
)
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.removal import OfAddresses
from kseg.etl.tables.values import RunCommit
from memory_s3 import serve_memory_s3

APP = "kseg/ledger/job"


def codes(target, recorded: TableState) -> list[str]:
    return [incident.code for incident in target.incidents_since(recorded, target.state())]


@pytest.fixture
def plain(tmp_path):
    """A table of nobody's making, as (path, state())."""
    path = str(tmp_path / "plain")
    write_deltalake(path, pa.table({"a": [1, 2, 3], "b": [1, 2, 3]}))
    write_deltalake(path, pa.table({"a": [4], "b": [4]}), mode="append")

    from kseg.etl.tables.delta.commit import DeltaTarget

    return DeltaTarget(path)


ROW = pa.table({"a": [1], "b": [1]})


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda p: write_deltalake(p, ROW, mode="append"), None),
        (lambda p: DeltaTable(p).delete("a = 1"), None),
        (lambda p: DeltaTable(p).delete(), None),
        (lambda p: DeltaTable(p).update(updates={"b": "9"}, predicate="a = 1"), None),
        (lambda p: DeltaTable(p).optimize.compact(), None),
        (lambda p: DeltaTable(p).optimize.z_order(["a"]), None),
        (lambda p: DeltaTable(p).vacuum(dry_run=False), None),
        (lambda p: DeltaTable(p).alter.set_table_properties({"delta.appendOnly": "false"}), None),
        (lambda p: DeltaTable(p).restore(0), "table-restored"),
        (lambda p: write_deltalake(p, ROW, mode="overwrite"), "table-overwritten"),
        (lambda p: write_deltalake(p, ROW, mode="overwrite", predicate="a = 1"), "table-overwritten"),
        (lambda p: write_deltalake(p, ROW, mode="overwrite", schema_mode="overwrite"), "table-overwritten"),
        (lambda p: DeltaTable.create(p, ROW.schema, mode="overwrite"), "table-replaced"),
    ],
)
def test_what_delta_rs_does_to_a_table_is_told_apart(plain, change, code):
    recorded = plain.state()
    change(plain.location.uri)
    # Whatever comes after it, an incident stays in sight.
    write_deltalake(plain.location.uri, DeltaTable(plain.location.uri).to_pyarrow_table().slice(0, 1), mode="append")
    assert codes(plain, recorded) == ([code] if code else [])


SPARKS = {
    "OPTIMIZE $T": None,
    "INSERT OVERWRITE $T VALUES (4, 4)": "table-overwritten",
    "RESTORE $T TO VERSION AS OF 1": "table-restored",
    "CREATE OR REPLACE TABLE $T USING delta AS SELECT 1L a, 2L b": "table-replaced",
}
MORE_OF_SPARKS = {
    "INSERT INTO $T VALUES (9, 9)": None,
    "UPDATE $T SET b = 8 WHERE a = 9": None,
    "DELETE FROM $T WHERE a = 1": None,
    "MERGE INTO $T t USING (SELECT 7L a, 7L b) s ON t.a = s.a WHEN NOT MATCHED THEN INSERT *": None,
    "VACUUM $T": None,
    "ALTER TABLE $T SET TBLPROPERTIES ('x' = 'y')": None,
    "INSERT INTO $T REPLACE WHERE a = 9 VALUES (9, 5)": "table-overwritten",
    "TRUNCATE TABLE $T": "table-truncated",
    "REPLACE TABLE $T (a BIGINT, b BIGINT) USING delta": "table-replaced",
    "CREATE OR REPLACE TABLE $T SHALLOW CLONE $O": "table-replaced",
    "ALTER TABLE $T ADD COLUMNS (c INT)": None,
}


def test_what_spark_does_to_a_table_is_told_apart(plain, spark, tmp_path, scale):
    other = f"delta.`{tmp_path / 'other'}`"
    spark.sql(f"CREATE TABLE {other} (a BIGINT, b BIGINT) USING delta")
    table = f"delta.`{plain.location.uri}`"
    for statement, code in scale(SPARKS, SPARKS | MORE_OF_SPARKS).items():
        recorded = plain.state()
        spark.sql(statement.replace("$T", table).replace("$O", other))
        assert codes(plain, recorded) == ([code] if code else []), statement


def test_all_incidents_are_told_oldest_first(plain):
    recorded = plain.state()
    write_deltalake(plain.location.uri, ROW, mode="overwrite")
    DeltaTable(plain.location.uri).restore(0)
    assert codes(plain, recorded) == ["table-overwritten", "table-restored"]


def test_our_own_commits_are_no_incidents(lander, rows):
    table = lander()
    table.land(rows(0, 100))
    recorded = table.target.state()
    removal = OfAddresses(OWN_ADDRESS, {TopicPartition("orders", 0): OffsetSet.of([(10, 20)])})
    table.land(rows(10, 20), run_id="backfill", app="kseg/ledger/job/backfill", remove=removal)
    table.target.remove_run(RunCommit("backfill", "kseg/ledger/job/backfill", 1))
    table.land(rows(100, 110).append_column("more", pa.array([1] * 10)), run_id="run-2", number=2, merge_schema=True)
    assert codes(table.target, recorded) == []
    replaced_by_spark = Commit(
        1, {"operation": "WRITE", "operationParameters": {"mode": "Overwrite"}}, transactions={"kseg/x/y": 1}
    )
    assert incident_of(replaced_by_spark, recorded.id) is None


def test_a_table_made_again_at_the_same_place(plain, tmp_path):
    import shutil

    recorded = plain.state()
    shutil.rmtree(plain.location.uri)
    assert codes(plain, recorded) == ["table-missing"]
    write_deltalake(plain.location.uri, ROW)
    assert codes(plain, recorded) == ["table-went-back"]
    for _ in range(3):
        write_deltalake(plain.location.uri, ROW, mode="append")
    assert codes(plain, recorded) == ["table-recreated"]


def test_a_table_that_was_recorded_in_another_format(plain):
    now = plain.state()
    assert codes(plain, replace(now, snapshot=SnapshotToken("iceberg/1"))) == ["table-recreated"]


def test_a_cleaned_log_leaves_the_number_of_rows(plain):
    recorded = plain.state()
    for _ in range(3):
        write_deltalake(plain.location.uri, ROW, mode="append")
    table = DeltaTable(plain.location.uri)
    table.create_checkpoint()
    for version in range(recorded.version + 2):
        (Path(plain.location.uri) / f"_delta_log/{version:020d}.json").unlink()
    assert codes(plain, recorded) == []
    more = TableState(recorded.id, recorded.version, 1000)
    assert codes(plain, more) == ["table-lost-rows"]
    unknown = TableState(recorded.id, recorded.version, None)
    assert codes(plain, unknown) == []


def test_a_commit_is_read_as_it_is(lander, rows):
    table = lander()
    table.land(rows(0, 10).append_column("p", pa.array(["a b%"] * 10)), partition_by=["p"])
    commit = read_commit(table.target.log, 1)
    assert commit.transactions == {APP: 1}
    assert (commit.run, commit.rows, commit.ours, commit.removed) == ("run-1", 10, True, 0)
    (file,) = commit.added
    assert (Path(table.path) / file.path).stat().st_size == file.size
    assert read_commit(table.target.log, 2) is None


def test_commits_without_our_words_are_read_too():
    text = '{"commitInfo":{"userMetadata":"not json"}}\n\n{"add":{"path":"a%20b","size":3}}\n{"x":{}}\n'
    commit = commit_of(LogEntry(4, parse(text.encode(), table="t", version=4, file="4.json")))
    assert (commit.details, commit.run, commit.rows) == ({}, None, None)
    assert commit.added[0].path == "a b"
    nothing = DeltaLog(MemoryLog())
    assert incidents_since(nothing, TableState("id", 4, 1), TableState("id", 4, 1)) == ()


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\v", "\x1c"])
def test_values_with_line_separators_are_within_one_line_of_the_log(tmp_path, lander, rows, separator):
    """Statistics and partition values hold texts as they are: JSON need not escape these."""
    text = f"a{separator}b"
    write_deltalake(tmp_path / "p", pa.table({"p": [text], "x": [text]}), partition_by=["p"])
    from kseg.etl.tables.delta.commit import DeltaTarget

    commit = read_commit(DeltaTarget(str(tmp_path / "p")).log, 0)
    assert commit is not None
    assert [file.rows for file in commit.added] == [1]
    table = lander()
    table.land(rows(0, 1).append_column("note", pa.array([text])))
    assert read_commit(table.target.log, table.target.state().version).added[0].rows == 1
    assert pa.table(table.target.load().scan(["note"]))["note"].to_pylist() == [text]


def test_a_commit_of_an_object_store_is_one_request(server, tmp_path):
    """Arrow's file systems ask for its size first."""
    for number in range(6):
        write_deltalake(tmp_path, pa.table({"a": [number]}), mode="append")
    for file in tmp_path.rglob("*.json"):
        server.put(f"t/{file.relative_to(tmp_path)}", file.read_bytes(), only_if_absent=False)
    log = DeltaAccess("s3://logs/t", server.options).log
    server.asked.clear()
    assert read_commit(log, 4).version == 4
    assert [commit.version for commit in commits_back(log, 5, 3)] == [5, 4, 3]
    assert find_transaction(log, APP, 1, 5, 4) is None
    names = [key.rpartition("/")[2][19:20] for method, key in server.asked if method == "GET"]
    assert names == ["4", "5", "4", "3", "5", "4"] == [key[-6] for _, key in server.asked]


@pytest.fixture
def server():
    with serve_memory_s3() as running:
        yield running
