"""A snapshot that is used again is what loading would give, whatever others do to the table."""

import json
import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from kseg.etl.errors import Refused
from kseg.etl.tables.delta import commit, snapshots
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.table import DeltaAccess
from kseg.etl.tables.parquet.schema import SinkSchema
from kseg.etl.tables.values import RunCommit

ROW = pa.table({"a": [1], "b": [1]})


class Looker:
    """A table that is looked at. loads: how often its snapshot was loaded for it."""

    def __init__(self, path: Path, access: type[DeltaAccess] = DeltaAccess) -> None:
        self.path = str(path)
        self.kept = snapshots.Snapshots()
        self.access = access(self.path, snapshots=self.kept)
        self.loads = 0
        self._load = self.access.load
        self.access.load = self._count

    def _count(self):
        self.loads += 1
        return self._load()

    def agrees(self) -> bool:
        """Whether a look shows what loading shows."""
        seen, loaded = self.access.look(), self._load()
        if seen is None or loaded is None:
            return seen is loaded
        return (
            seen.state() == loaded.state()
            and sorted(seen.file_uris()) == sorted(loaded.file_uris())
            and seen.metadata() == loaded.metadata()
        )


@pytest.fixture
def looker(tmp_path):
    write_deltalake(str(tmp_path / "table"), ROW)
    write_deltalake(str(tmp_path / "table"), ROW, mode="append")
    return Looker(tmp_path / "table")


def test_a_table_is_loaded_once_while_nothing_is_committed(looker):
    assert looker.access.state().version == 1
    assert looker.access.describe(["app"]).state.rows == 2
    assert looker.access.look().files() == 2
    assert looker.access.transaction_version("app") is None
    assert looker.access.spark_reasons() == ()
    assert looker.access.schema().names == looker.access.column_names() == ["a", "b"]
    assert looker.access.partition_columns() == []
    assert looker.loads == 1


def test_a_table_that_is_made_is_seen(tmp_path):
    looker = Looker(tmp_path / "table")
    assert looker.access.look() is None
    write_deltalake(looker.path, ROW)
    assert looker.access.state().version == 0
    shutil.rmtree(looker.path)
    assert looker.access.look() is None


@pytest.mark.parametrize(
    "change",
    [
        lambda path: write_deltalake(path, ROW, mode="append"),
        lambda path: write_deltalake(path, ROW, mode="overwrite"),
        lambda path: DeltaTable(path).delete("a = 1"),
        lambda path: DeltaTable(path).restore(0),
        lambda path: DeltaTable(path).optimize.compact(),
        lambda path: DeltaTable(path).alter.set_table_properties({"delta.appendOnly": "true"}),
        lambda path: DeltaTable.create(path, ROW.schema, mode="overwrite"),
    ],
)
def test_what_others_commit_is_seen(looker, change):
    assert looker.agrees()
    change(looker.path)
    assert looker.agrees()
    assert looker.loads == 2


def _made_anew(path: Path) -> None:
    shutil.rmtree(path)
    for _ in range(2):
        write_deltalake(str(path), ROW, mode="append")


def _put_back(path: Path) -> None:
    """From a copy of its first version."""
    (path / "_delta_log" / f"{1:020d}.json").unlink()


def _put_back_and_gone_on(path: Path) -> None:
    _put_back(path)
    write_deltalake(str(path), ROW, mode="append")


@pytest.mark.parametrize("change", [_made_anew, _put_back, _put_back_and_gone_on])
def test_another_log_in_the_place_of_the_first_is_seen(looker, change):
    assert looker.agrees()
    change(Path(looker.path))
    assert looker.agrees()
    assert looker.loads == 2


def test_a_version_without_an_entry_is_loaded_each_time(looker):
    DeltaTable(looker.path).create_checkpoint()
    for version in range(2):
        Path(looker.path, "_delta_log", f"{version:020d}.json").unlink()
    assert looker.agrees()
    assert looker.agrees()
    assert looker.loads == 2


def test_no_more_files_are_kept_than_there_is_room_for(tmp_path, monkeypatch):
    monkeypatch.setattr(snapshots, "MOST_FILES", 2)
    kept = snapshots.Snapshots()
    lookers = [Looker(tmp_path / name) for name in ("first", "second")]
    for looker in lookers:
        write_deltalake(looker.path, ROW)
        write_deltalake(looker.path, ROW, mode="append")
        looker.access._snapshots = kept
    for _ in range(3):
        assert all(looker.agrees() for looker in lookers)
    assert [looker.loads for looker in lookers] == [1, 3]
    shutil.rmtree(lookers[0].path)  # which makes room
    for _ in range(3):
        assert all(looker.agrees() for looker in lookers)
    assert lookers[1].loads <= 5


def test_no_commit_is_made_to_another_log_than_the_one_looked_at(looker):
    looked = Looker(Path(looker.path), DeltaTarget)
    planned = looked.access.state()
    _made_anew(Path(looker.path))
    with pytest.raises(Refused, match="id"):
        looked.access.commit([], RunCommit("run", "kseg/ledger/job", 1), expected=planned)


def test_after_a_lost_race_the_table_is_loaded(looker, monkeypatch):
    looked = Looker(Path(looker.path), DeltaTarget)
    planned = looked.access.state()

    def late(*arguments):
        monkeypatch.undo()
        write_deltalake(looker.path, ROW, mode="append")
        monkeypatch.setattr(snapshots, "_is_newest", lambda kept: True)
        return commit.commit_files(*arguments)

    monkeypatch.setattr(commit, "commit_files", late)
    made = looked.access.commit([], RunCommit("run", "kseg/ledger/job", 1), expected=planned)
    assert (made.commit.version, made.commit.after.rows) == (3, 3)


def test_a_link_that_leads_to_another_folder_is_followed(tmp_path):
    first, second, link = tmp_path / "first", tmp_path / "second", tmp_path / "link"
    write_deltalake(str(first), ROW)
    link.symlink_to(first)
    looked = Looker(link, DeltaTarget)
    planned = looked.access.state()
    shutil.copytree(first, second)
    link.unlink()
    link.symlink_to(second)
    assert looked.agrees()
    looked.access.commit([], RunCommit("run", "kseg/ledger/job", 1), expected=planned)
    assert [DeltaTable(str(folder)).version() for folder in (first, second)] == [0, 1]


def _clean_log_up_to_the_newest(path: str) -> None:
    table = DeltaTable(path)
    table.create_checkpoint()
    for version in range(table.version()):
        Path(path, "_delta_log", f"{version:020d}.json").unlink()


def test_a_log_that_is_cleaned_below_the_newest_entry_is_loaded_anew(looker):
    """delta-rs reads older entries when it is asked for an app transaction."""
    looked = Looker(Path(looker.path), DeltaTarget)
    planned = looked.access.state()
    _clean_log_up_to_the_newest(looker.path)
    assert looked.access.transaction_version("kseg/ledger/job") is None
    assert looked.access.describe(["kseg/ledger/job"]).state == planned
    assert looked.loads == 2


def test_an_apps_last_transaction_is_asked_of_the_log_once_a_version(looker):
    target = DeltaTarget(looker.path, snapshots=looker.kept)
    asked = []
    for number in range(1, 3):
        planned = target.state()
        target.commit([], RunCommit("run", "kseg/ledger/job", number), expected=planned)
        asked.append([target.transaction_version("kseg/ledger/job") for _ in range(2)])
    assert asked == [[1, 1], [2, 2]]
    assert looker.access.transaction_version("kseg/ledger/none") is None
    _clean_log_up_to_the_newest(looker.path)
    assert looker.access.transaction_version("kseg/ledger/none") is None
    assert looker.loads == 0, "the target has loaded it"
    assert looker.access.transaction_version("kseg/ledger/other") is None
    assert looker.loads == 1


def test_a_table_that_is_made_here_is_not_loaded_for_the_next_look(tmp_path):
    looked = Looker(tmp_path / "table", DeltaTarget)
    sink = SinkSchema(pa.schema([("a", pa.int64())]), None)
    looked.access.ensure(sink)
    assert looked.loads == 1, "there was none"
    assert looked.agrees()
    assert looked.loads == 1


@pytest.mark.parametrize("looked_at", ["loaded", "made"])
def test_a_table_that_takes_anothers_place_as_that_is_looked_at_is_not_taken_for_it(tmp_path, looked_at):
    looked = Looker(tmp_path / "table", DeltaTarget)

    def first_of_two() -> snapshots.Snapshot:
        write_deltalake(looked.path, ROW)
        first = snapshots.Snapshot(looked.path)
        shutil.rmtree(looked.path)
        write_deltalake(looked.path, ROW)
        return first

    if looked_at == "loaded":
        first = looked.kept.newest(looked.access.location, first_of_two)
    else:
        first = looked.access.made(first_of_two)
    assert looked.agrees()
    with pytest.raises(Refused, match="id"):
        looked.access.commit([], RunCommit("run", "kseg/ledger/job", 1), expected=first.state())


def test_of_two_who_make_a_table_one_has_lost(tmp_path):
    path, kept = str(tmp_path / "table"), snapshots.Snapshots()
    first, second = (DeltaTarget(path, snapshots=kept) for _ in range(2))
    wide = SinkSchema(pa.schema([("a", pa.int64()), ("b", pa.int64())]), None)
    fit = second.look

    def look():
        second.look = fit
        seen = second.look()
        first.ensure(wide)
        return seen

    second.look = look
    ready = second.ensure(SinkSchema(pa.schema([("a", pa.int64())]), None))
    assert ready.write.columns.table_schema.names == ["a", "b"]


def test_a_commit_goes_on_when_the_log_is_cleaned_below_the_newest_entry(looker):
    looked = Looker(Path(looker.path), DeltaTarget)
    planned = looked.access.state()
    _clean_log_up_to_the_newest(looker.path)
    made = looked.access.commit([], RunCommit("run", "kseg/ledger/job", 1), expected=planned)
    assert made.commit.version == 2
    looked.access.remove_run(RunCommit("run", "kseg/ledger/job", 1))


@pytest.mark.parametrize("seed", range(4))
def test_a_look_agrees_with_loading_after_any_changes(tmp_path, seed):
    choice = random.Random(seed)
    looker = Looker(tmp_path / "table")
    table, copy = Path(looker.path), tmp_path / "copy"

    def append() -> None:
        write_deltalake(looker.path, ROW, mode="append")

    def overwrite() -> None:
        write_deltalake(looker.path, ROW, mode="overwrite")

    def checkpoint() -> None:
        if table.exists():
            DeltaTable(looker.path).create_checkpoint()

    def clean_log() -> None:
        last = table / "_delta_log" / "_last_checkpoint"
        checkpointed = json.loads(last.read_text())["version"] if last.exists() else -1
        for entry in (table / "_delta_log").glob("*.json"):
            if int(entry.stem) < checkpointed:
                entry.unlink()

    def back_up() -> None:
        shutil.rmtree(copy, ignore_errors=True)
        if table.exists():
            shutil.copytree(table, copy)

    def put_back() -> None:
        if copy.exists():
            shutil.rmtree(table, ignore_errors=True)
            shutil.copytree(copy, table)

    def delete() -> None:
        shutil.rmtree(table, ignore_errors=True)

    for _ in range(60):
        change = choice.choice([append, append, append, overwrite, checkpoint, clean_log, back_up, put_back, delete])
        change()
        for _ in range(choice.randrange(3)):
            assert looker.agrees(), change.__name__
