"""A table that never had a row gets the columns and partitions of a corrected job file, by one commit of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.run_ids import incremental_run_id
from kseg.etl.tables.delta import shape
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.errors import IncompatibleSchema
from kseg.etl.tables.parquet.schema import SinkSchema, sink_schema
from kseg.etl.tables.values import RunCommit

LEDGER = "0c5ad8f2-57d8-4b8d-9c1c-5f2f5b3ff001"
FIRST, SECOND = (incremental_run_id(LEDGER, "clicks", number) for number in (1, 2))
OTHERS = incremental_run_id(LEDGER, "orders", 1)


def sink(**columns: pa.DataType) -> SinkSchema:
    return sink_schema(pa.schema([*columns.items()]), addresses=False)


WRONG = sink(id=pa.int64(), at=pa.string())
RIGHT = sink(id=pa.string(), day=pa.date32(), seen=pa.timestamp("us"))


class Renewals:
    """Counts how often the lease was renewed before a change."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> None:
        self.made += 1


@pytest.fixture
def target(tmp_path: Path) -> DeltaTarget:
    return DeltaTarget(str(tmp_path / "table"))


@pytest.fixture
def renewals() -> Renewals:
    return Renewals()


def entry(target: DeltaTarget, version: int) -> list[dict]:
    path = Path(target.location.uri, f"_delta_log/{version:020d}.json")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_empty_table_of_an_earlier_run_gets_the_corrected_columns_and_partitions(target, renewals, tmp_path):
    made = target.ensure(WRONG, partition_by=["at"], run_id=FIRST)
    target.remove_run(RunCommit(FIRST, "kseg/l/clicks", 1))
    ready = target.ensure(RIGHT, partition_by=["day"], run_id=SECOND, reshape=renewals)
    assert (ready.state.id, ready.state.version, renewals.made) == (made.state.id, 2, 1)
    new = DeltaTarget(str(tmp_path / "new"))
    new.ensure(RIGHT, partition_by=["day"], run_id=SECOND)
    corrected, created = target.load(), new.load()
    assert corrected.schema() == created.schema()
    assert corrected.metadata().partition_columns == ["day"]
    assert corrected.metadata().configuration == created.metadata().configuration
    assert corrected.protocol() == created.protocol()  # with the feature of times without a zone
    assert corrected.transaction_version("kseg/l/clicks") == 1
    again = target.ensure(RIGHT, partition_by=["day"], run_id=SECOND, reshape=renewals)
    assert (again.state, renewals.made) == (ready.state, 1)


def test_other_readers_see_the_corrected_table(target, renewals, duck):
    target.ensure(WRONG, partition_by=["at"], run_id=FIRST)
    target.ensure(RIGHT, partition_by=["day"], run_id=SECOND, reshape=renewals)
    columns = duck.execute(f"SELECT * FROM delta_scan('{target.location.uri}')").description
    assert [(name, str(kind)) for name, kind, *_ in columns] == [
        ("id", "VARCHAR"), ("day", "DATE"), ("seen", "TIMESTAMP"), ("_kseg_run", "VARCHAR"),
    ]  # fmt: skip


@pytest.mark.parametrize("asked", [[], ["id"]], ids=["none", "another"])
def test_partitions_alone_are_corrected(target, renewals, asked):
    target.ensure(RIGHT, partition_by=["day"], run_id=FIRST)
    target.ensure(RIGHT, partition_by=asked, run_id=SECOND, reshape=renewals)
    assert target.load().metadata().partition_columns == asked


def test_columns_that_the_job_no_longer_has_go_unless_it_adds_columns(target, renewals):
    target.ensure(sink(id=pa.int64(), old=pa.string()), run_id=FIRST)
    target.ensure(sink(id=pa.int64()), merge_schema=True, run_id=SECOND, reshape=renewals)
    assert target.column_names() == ["id", "old", "_kseg_run"]
    target.ensure(sink(id=pa.int64()), run_id=SECOND, reshape=renewals)
    assert target.column_names() == ["id", "_kseg_run"]


def test_a_type_that_does_not_fit_is_corrected_where_the_job_adds_columns(target, renewals):
    target.ensure(WRONG, run_id=FIRST)
    target.ensure(RIGHT, merge_schema=True, run_id=SECOND, reshape=renewals)
    assert target.column_names() == ["id", "day", "seen", "_kseg_run"]


def landed(target: DeltaTarget) -> None:
    write_deltalake(target.location.uri, pa.table({"id": [1], "at": ["x"], "_kseg_run": [FIRST]}), mode="append")


def emptied(target: DeltaTarget) -> None:
    landed(target)
    DeltaTable(target.location.uri).delete()


def altered(target: DeltaTarget) -> None:
    DeltaTable(target.location.uri).alter.set_table_properties({"delta.appendOnly": "true"})


def clustered(target: DeltaTarget) -> None:
    """As `ALTER TABLE … CLUSTER BY` does where the table was clustered before."""
    domain = {"domain": "delta.clustering", "configuration": '{"clusteringColumns":[["id"]]}', "removed": False}
    actions = [{"commitInfo": {"operation": "CLUSTER BY"}}, {"domainMetadata": domain}]
    log = Path(target.location.uri, "_delta_log/00000000000000000001.json")
    log.write_text("\n".join(map(json.dumps, actions)))


def log_cleaned(target: DeltaTarget) -> None:
    DeltaTable(target.location.uri).create_checkpoint()
    target.remove_run(RunCommit(FIRST, "kseg/l/clicks", 1))
    Path(target.location.uri, "_delta_log/00000000000000000000.json").unlink()


@pytest.mark.parametrize("change", [landed, emptied, altered, clustered, log_cleaned])
def test_a_table_that_had_rows_or_that_somebody_has_changed_keeps_its_shape(target, renewals, change):
    target.ensure(WRONG, run_id=FIRST)
    change(target)
    with pytest.raises(IncompatibleSchema):
        target.ensure(RIGHT, run_id=SECOND, reshape=renewals)
    assert renewals.made == 0


@pytest.mark.parametrize(
    "maker",
    [OTHERS, None, "4be1f00c524be1f00c524be1f00c5201"],
    ids=["another job", "somebody", "a run id of an older release"],
)
def test_a_table_that_another_job_or_somebody_else_has_made_keeps_its_shape(target, renewals, maker):
    target.ensure(WRONG, run_id=maker)
    with pytest.raises(IncompatibleSchema):
        target.ensure(RIGHT, run_id=SECOND, reshape=renewals)


def test_a_lost_lease_changes_nothing(target):
    target.ensure(WRONG, run_id=FIRST)

    def lost() -> None:
        raise Refused("lease", "it is lost")

    with pytest.raises(Refused):
        target.ensure(RIGHT, run_id=SECOND, reshape=lost)
    assert target.load().version() == 0


def test_a_commit_between_look_and_change_wins_and_the_lease_is_asked_again(target):
    target.ensure(WRONG, run_id=FIRST)
    tries = []

    def abandoned_meanwhile() -> None:
        tries.append(target.load().version())
        if len(tries) == 1:
            target.remove_run(RunCommit(FIRST, "kseg/l/clicks", 1))

    ready = target.ensure(RIGHT, run_id=SECOND, reshape=abandoned_meanwhile)
    assert (tries, ready.state.version) == ([0, 1], 2)
    assert target.load().transaction_version("kseg/l/clicks") == 1


def test_files_written_for_the_former_shape_are_not_committed(lander, rows, renewals):
    table = lander()
    files = table.write([rows(0, 3)])
    columns = table.target.ensure(sink_schema(rows().schema), run_id=None).write.columns
    (table.target.location.open().fs).delete_dir(table.path)
    table.target.ensure(sink_schema(rows().schema), run_id=FIRST)
    table.target.ensure(WRONG, run_id=SECOND, reshape=renewals)
    with pytest.raises(Refused, match="the table changed while rows were written"):
        table.commit(files, columns=columns)


def test_a_change_of_shape_is_no_incident(target, renewals):
    recorded = target.ensure(WRONG, run_id=FIRST).state
    now = target.ensure(RIGHT, run_id=SECOND, reshape=renewals).state
    assert target.incidents_since(recorded, now) == ()
    assert entry(target, 1)[0]["commitInfo"]["kseg"] == {"run": SECOND}


def test_a_store_that_takes_no_single_file_says_what_to_do(target, renewals, monkeypatch):
    target.ensure(WRONG, run_id=FIRST)
    monkeypatch.setattr(shape, "put_new", lambda *_, **__: None)
    with pytest.raises(ConfigurationError, match="delete the table's folder"):
        target.ensure(RIGHT, run_id=SECOND, reshape=renewals)
