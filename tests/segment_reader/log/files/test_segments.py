"""Which files of a folder count: as a broker would start from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.segments import PartitionLog, open_log, open_logs, partition_folders
from kseg.segment_reader.log.files.storage import LocalStorage, StorageEntry

STORAGE = LocalStorage()


def write(folder: Path, name: str, first: int, last: int) -> None:
    """A segment file with one record an offset."""
    batches = [encode_batch([Record(value=b"v")], base_offset=offset) for offset in range(first, last + 1)]
    (folder / name).write_bytes(b"".join(batches))


def opened(folder: Path) -> PartitionLog:
    return open_log(STORAGE, str(folder), "orders", 0)


def names(folder: Path) -> list[str]:
    return [Path(segment.path).name for segment in opened(folder).segments]


def test_segments_ascend_with_their_other_files(tmp_path: Path) -> None:
    write(tmp_path, f"{100:020d}.log", 100, 101)
    write(tmp_path, f"{0:020d}.log", 0, 99)
    for name in (f"{0:020d}.index", f"{0:020d}.txnindex", f"{100:020d}.snapshot", f"{50:020d}.timeindex", "note.txt"):
        (tmp_path / name).touch()
    log = opened(tmp_path)
    assert [segment.base_offset for segment in log.segments] == [0, 100]
    assert sorted(log.segments[0].others) == ["index", "txnindex"]
    assert [offset for offset, _ in log.snapshots] == [100]
    assert [log.segment_at(offset) for offset in (0, 99, 100, 5000)] == [0, 0, 1, 1]


def test_deleted_and_half_cleaned_files_do_not_count(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}.log.deleted", 0, 9)
    write(tmp_path, f"{0:020d}.log.cleaned", 0, 9)
    write(tmp_path, f"{10:020d}.log", 10, 19)
    assert names(tmp_path) == [f"{10:020d}.log"]


def test_a_swap_segment_takes_the_place_of_what_it_was_made_of(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}.log", 0, 9)
    write(tmp_path, f"{10:020d}.log", 10, 19)
    write(tmp_path, f"{20:020d}.log", 20, 29)
    write(tmp_path, f"{0:020d}.log.swap", 0, 19)
    assert names(tmp_path) == [f"{0:020d}.log.swap", f"{20:020d}.log"]


def test_a_swap_segment_above_a_half_cleaned_one_is_of_unfinished_work(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}.log", 0, 19)
    write(tmp_path, f"{0:020d}.log.cleaned", 0, 9)
    write(tmp_path, f"{10:020d}.log.swap", 10, 19)
    assert names(tmp_path) == [f"{0:020d}.log"]


def test_a_damaged_small_file_is_noted_and_done_without(tmp_path: Path) -> None:
    write(tmp_path, f"{0:020d}.log", 0, 1)
    (tmp_path / "partition.metadata").write_text("version: 7\n")
    (tmp_path / "leader-epoch-checkpoint").write_text("0\n3\n")
    log = opened(tmp_path)
    assert (log.topic_id, log.leader_epochs, len(log.notes)) == (None, (), 2)


def test_folders_that_go_while_they_are_listed_are_looked_for_again(tmp_path: Path) -> None:
    """A topic is deleted, and a replica that moved to this disk gets its last name."""
    for name in ("deleted-0", "moving-0.0123456789abcdef0123456789abcdef-future", "stays-0"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, f"{0:020d}.log", 0, 5)
    (tmp_path / "gone-0.0123456789abcdef0123456789abcdef-delete").mkdir()

    class Busy(LocalStorage):
        def list(self, folder: str) -> list[StorageEntry]:
            found = super().list(folder)
            if folder == str(tmp_path) and (tmp_path / "deleted-0").exists():
                (tmp_path / "deleted-0").rename(tmp_path / "deleted-0.00000000000000000000000000000000-delete")
                moved = next(tmp_path.glob("moving-0.*"))
                moved.rename(tmp_path / "moving-0")
            return found

    found = open_logs(Busy(), str(tmp_path))
    assert sorted((name.topic, name.replica) for name, _ in found) == [("moving", "current"), ("stays", "current")]
    assert all(len(log.segments) == 1 for _, log in found)


def test_of_chosen_folders_that_go_those_of_the_same_topics_are_looked_for(tmp_path: Path) -> None:
    for name in (f"moving-0.{32 * 'a'}-future", "other-0"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, f"{0:020d}.log", 0, 5)
    storage = LocalStorage()
    chosen = {path: found for path, found in partition_folders(storage, str(tmp_path)).items() if "moving" in path}
    (tmp_path / f"moving-0.{32 * 'a'}-future").rename(tmp_path / "moving-0")
    ((found, log),) = open_logs(storage, str(tmp_path), chosen)
    assert (found.topic, found.replica, log.folder) == ("moving", "current", f"{tmp_path}/moving-0")


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SegmentGone, match="no such folder") as told:
        opened(tmp_path / "gone-0")
    assert told.value.retriable
