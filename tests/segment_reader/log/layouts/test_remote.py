"""Remote stores as folders: copies that overlap or diverge, topics made anew, damaged objects, layouts of others."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kseg.segment_reader.encode.batches import Record, encode_message_set
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log import layouts
from kseg.segment_reader.log.damage.check import check_partition
from kseg.segment_reader.log.errors import LayoutError, LogFileError
from kseg.segment_reader.log.files.locations import open_storage
from kseg.segment_reader.log.files.segments import open_log, partition_folders
from kseg.segment_reader.log.files.storage import LocalStorage, OpenFile, Storage, StorageEntry
from kseg.segment_reader.log.layouts.remote import File, RemotePartition, RemoteSegment, RemoteStorage

Read = Callable[..., list[tuple[int, bytes | None, bytes | None]]]


def values(read: Read, root: Path, layout: str = "aiven", **options: str) -> list[bytes | None]:
    """The values, which are the offsets with a mark each; their offsets have no gap and no repetition."""
    rows = read(*open_storage(str(root), layout, options))
    assert [row[0] for row in rows] == list(range(rows[0][0], rows[0][0] + len(rows)))
    return [row[2] for row in rows]


def marked(*parts: tuple[range, bytes]) -> list[bytes]:
    return [b"%d%s" % (offset, mark) for offsets, mark in parts for offset in offsets]


def test_an_upload_that_was_repeated_gives_its_rows_once(uploads: Any, read: Read) -> None:
    uploads.upload(0, 49, epochs={0: 0})
    for number in range(3):
        uploads.upload(50, 99, epochs={0: 0}, segment_id=number, uploaded_ms=number)
    assert values(read, uploads.root) == marked((range(100), b""))


@pytest.mark.parametrize("compressed", [True, False])
def test_segments_of_two_leaders_that_rolled_elsewhere_give_each_offset_once(
    uploads: Any, read: Read, compressed: bool
) -> None:
    """The new leader begins with the segment in which the old one's uploads ended."""
    uploads.upload(0, 49, epochs={0: 0}, compressed=compressed)
    uploads.upload(50, 99, epochs={0: 0}, compressed=compressed)
    uploads.upload(80, 139, epochs={0: 0, 1: 120}, segment_id=1, compressed=compressed)
    assert values(read, uploads.root) == marked((range(140), b""))
    storage, root = open_storage(str(uploads.root), "aiven")
    told = check_partition(storage, f"{root}/orders-0", "orders", 0, deep=True)
    assert (told.faults, told.log_end_offset) == ([], 140)


def test_what_a_leader_wrote_that_lost_an_unclean_election_never_lands(uploads: Any, read: Read) -> None:
    uploads.upload(0, 49, epochs={0: 0})
    uploads.upload(50, 149, epochs={0: 0, 1: 60}, mark=b" lost", uploaded_ms=5)  # right up to 79, in epoch 1
    uploads.upload(150, 199, epochs={1: 60}, mark=b" lost", segment_id=1, uploaded_ms=6)
    uploads.upload(80, 119, epochs={2: 80}, lineage={0: 0, 1: 60, 2: 80}, uploaded_ms=7)
    found = values(read, uploads.root)
    assert found == marked((range(50), b""), (range(50, 80), b" lost"), (range(80, 120), b""))
    log = open_log(*_folder(uploads.root), "orders", 0)
    assert [epoch.epoch for epoch in log.leader_epochs] == [0, 1, 2]


def test_a_batch_across_the_place_where_another_copy_begins_is_refused(uploads: Any, read: Read) -> None:
    uploads.upload(0, 99, epochs={0: 0}, batch=20)
    uploads.upload(50, 149, epochs={0: 0}, batch=5)
    with pytest.raises(LayoutError, match="spans offset 50") as told:
        values(read, uploads.root)
    assert told.value.position is not None
    assert pickle.loads(pickle.dumps(told.value)).reason == told.value.reason


def test_a_compressed_message_across_the_place_where_another_copy_begins_is_refused(tmp_path: Path, read: Read) -> None:
    """Of the formats before 0.11: it has the offset of its last message, which is not below that place."""
    for where, cut in (("across", 50), ("fits", 40)):
        for copy, parts in (("one", [(0, 20), (20, 40), (40, 60)]), ("two", [(cut, 60), (60, 80)])):
            folder = tmp_path / where / copy / "orders-0"
            folder.mkdir(parents=True)
            sets = [
                encode_message_set([Record()] * (end - first), magic=1, base_offset=first, compression="gzip")
                for first, end in parts
            ]
            (folder / f"{parts[0][0]:020d}.log").write_bytes(b"".join(sets))
    with pytest.raises(LayoutError, match="spans offset 50"):
        read(*open_storage(str(tmp_path / "across"), "copies"))
    assert [row[0] for row in read(*open_storage(str(tmp_path / "fits"), "copies"))] == [*range(80)]


def test_what_was_not_uploaded_to_its_end_does_not_count(uploads: Any, read: Read) -> None:
    uploads.upload(0, 49, epochs={0: 0})
    uploads.upload(50, 99, epochs={0: 0}).unlink()
    uploads.upload(50, 79, epochs={0: 0}, segment_id=1)
    assert values(read, uploads.root) == marked((range(80), b""))


def test_of_two_topics_of_one_name_the_last_one_written_is_read(uploads: Any, read: Read) -> None:
    old = UUID(int=7)
    uploads.upload(0, 199, epochs={5: 0}, topic_id=old, mark=b" old", uploaded_ms=10)
    uploads.upload(0, 49, epochs={0: 0}, uploaded_ms=20)
    assert values(read, uploads.root) == marked((range(50), b""))
    storage, root = open_storage(str(uploads.root), "aiven")
    folders = [folder.rsplit("/", 1)[-1] for folder in partition_folders(storage, root)]
    assert folders == ["orders-0", f"orders-0.{old.hex}-delete"]


def test_topics_of_one_name_that_nothing_tells_apart_are_refused(uploads: Any, read: Read) -> None:
    uploads.upload(0, 199, epochs={0: 0}, topic_id=UUID(int=7), uploaded_ms=20)
    uploads.upload(0, 49, epochs={0: 0}, uploaded_ms=20)
    with pytest.raises(LayoutError, match="it is unknown which is the newest"):
        values(read, uploads.root)


def test_a_broker_s_folder_tells_which_topic_and_which_epochs_are_its_own(
    uploads: Any, read: Read, tmp_path: Path
) -> None:
    uploads.upload(0, 99, epochs={0: 0})
    uploads.upload(100, 199, epochs={0: 0, 1: 150}, mark=b" lost")
    uploads.upload(0, 399, epochs={0: 0}, topic_id=UUID(int=9), mark=b" other", uploaded_ms=99)
    local = tmp_path / "local" / "orders-0"
    local.mkdir(parents=True)
    newer = uploads.upload(150, 299, epochs={0: 0}, segment_id=3, compressed=False)
    shutil.copy(newer.with_suffix(".log"), local / f"{150:020d}.log")
    for ending in (".log", ".indexes", ".rsm-manifest"):
        newer.with_suffix(ending).unlink()
    (local / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n2 120\n")
    (local / "partition.metadata").write_text("version: 0\ntopic_id: ERERESIiMzNERFVVVVVVVQ\n")
    found = read(*open_storage(str(uploads.root), "aiven", {"layout.local": str(tmp_path / "local")}))
    assert [row[2] for row in found] == marked((range(100), b""), (range(100, 120), b" lost"), (range(150, 300), b""))


def test_an_object_that_does_not_fit_its_manifest_is_refused(uploads: Any, read: Read) -> None:
    path = uploads.upload(0, 49, epochs={0: 0})
    log = path.with_suffix(".log")
    data = log.read_bytes()
    log.write_bytes(data[:-3])
    with pytest.raises(LayoutError, match=rf"it has {len(data) - 3} bytes, and by its manifest {len(data)}") as told:
        values(read, uploads.root)
    assert told.value.file == str(log)


def test_each_flipped_byte_of_a_compressed_object_is_an_error_or_the_same_rows(uploads: Any, read: Read) -> None:
    path = uploads.upload(0, 14, epochs={0: 0}).with_suffix(".log")
    right, data = values(read, uploads.root), path.read_bytes()
    refused = 0
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        try:
            found = values(read, uploads.root)
        except (LogFileError, RecordFormatError):
            refused += 1
        else:
            assert found == right
    assert refused > len(data) // 2


def test_a_manifest_of_another_segment_is_refused(uploads: Any, read: Read) -> None:
    path = uploads.upload(0, 49, epochs={0: 0})
    document = json.loads(path.read_text())
    document["remoteLogSegmentMetadata"]["startOffset"] = 7
    path.write_text(json.dumps(document))
    with pytest.raises(LayoutError, match="is another segment's: orders-0 at offset 7"):
        values(read, uploads.root)


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("orders-0", "{:020d}.log"),
        ("2026/11/21/orders-0", "broker-1_{:020d}_x.log"),
        ("backup/orders/0", "{:020d}-20261121T101500.log"),
        ("orders-0-ERERESIiMzNERFVVVVVVVQ", "{:020d}-AAAAAAAAAAAAAAAAAAAAAA.log"),
    ],
)
def test_copies_are_found_under_any_prefix_and_name(
    uploads: Any, read: Read, tmp_path: Path, folder: str, name: str
) -> None:
    target = tmp_path / "copies" / folder
    target.mkdir(parents=True)
    for first, last in ((0, 49), (50, 99), (80, 149)):
        made = uploads.upload(first, last, epochs={0: 0}, compressed=False).with_suffix(".log")
        shutil.copy(made, target / name.format(first))
    assert values(read, tmp_path / "copies", "copies") == marked((range(150), b""))


@pytest.mark.parametrize(
    "folders",
    [
        ("2026/11/21/orders-0", "2026/11/22/orders-0", "2026/11/22/late/orders-0"),
        ("broker-1/orders/0", "broker-2/orders/0", "broker-2/orders-0"),
        ("old/orders-0", "orders-0-ERERESIiMzNERFVVVVVVVQ", "orders-ERERESIiMzNERFVVVVVVVQ/0"),
    ],
)
def test_a_partition_s_segments_may_lie_in_several_folders(
    uploads: Any, read: Read, tmp_path: Path, folders: tuple[str, ...]
) -> None:
    """A folder for each day, or each broker. Those of the last folder alone were read."""
    for folder, (first, last) in zip(folders, ((0, 49), (50, 99), (80, 149)), strict=True):
        target = tmp_path / "copies" / folder
        target.mkdir(parents=True)
        made = uploads.upload(first, last, epochs={0: 0}, compressed=False).with_suffix(".log")
        shutil.copy(made, target / f"{first:020d}.log")
    assert values(read, tmp_path / "copies", "copies") == marked((range(150), b""))
    storage, root = open_storage(str(tmp_path / "copies"), "copies")
    assert list(partition_folders(storage, root)) == [f"{root}/orders-0"]


def test_topics_of_one_name_are_told_apart_once_and_where_they_are_read(tmp_path: Path) -> None:
    """Others of the store are read all the same, and many partitions ask about each other only once."""

    class Recreated:
        asked = 0

        def partitions(self) -> list[RemotePartition]:
            known = [("orders", number, topic_id) for number in range(30) for topic_id in (1, 2)]
            known += [("bills", 0, 1), ("bills", 0, 2), ("notes", 0, 3)]
            return [RemotePartition(name, number, UUID(int=i), f"{name}.{i}.{number}") for name, number, i in known]

        def segments(self, partition: RemotePartition) -> list[RemoteSegment]:
            self.asked += 1
            _, topic_id, _ = partition.address.split(".")
            uploaded = int(topic_id) if partition.topic == "orders" else 0
            return [RemoteSegment(0, partition.address, 0, 0, (), uploaded, {"log": 0})]

        def open(self, segment: RemoteSegment) -> OpenFile:
            raise AssertionError(segment)

        def read(self, segment: RemoteSegment, file: File) -> bytes:
            raise AssertionError(file)

    layout = Recreated()
    storage = RemoteStorage(layout, LocalStorage(), str(tmp_path))
    names = {found.replica: found for found in partition_folders(storage, str(tmp_path)).values()}
    assert set(names) == {"current", "delete"}
    assert layout.asked == 62
    assert open_log(storage, f"{tmp_path}/orders-7", "orders", 7).topic_id == UUID(int=2)
    assert open_log(storage, f"{tmp_path}/notes-0", "notes", 0).topic_id == UUID(int=3)
    with pytest.raises(LayoutError, match="several topics are called bills"):
        open_log(storage, f"{tmp_path}/bills-0", "bills", 0)


class Reads:
    """A storage that notes the endings of the files that are read, in `of`."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.of: list[str] = []

    def list(self, folder: str) -> list[StorageEntry]:
        return self._storage.list(folder)

    def open(self, path: str) -> OpenFile:
        self.of.append(path.rpartition(".")[2])
        return self._storage.open(path)

    def read_all(self, path: str) -> bytes:
        self.of.append(path.rpartition(".")[2])
        return self._storage.read_all(path)


def test_a_folder_that_is_listed_again_costs_only_the_segments_that_are_new(uploads: Any, tmp_path: Path) -> None:
    target = tmp_path / "copies" / "orders-0"
    target.mkdir(parents=True)

    def copy(first: int, last: int) -> None:
        made = uploads.upload(first, last, epochs={0: 0}, compressed=False)
        shutil.copy(made.with_suffix(".log"), target / f"{first:020d}.log")
        shutil.copy(made.with_suffix(".indexes"), target / f"{first:020d}.leader_epoch_checkpoint")

    for first in range(0, 500, 50):
        copy(first, first + 49)
    storage, root = open_storage(str(tmp_path / "copies"))
    reads = Reads(storage)
    remote = layouts.open_layout("copies", reads, root, {})
    found = []
    for more in (None, None, (500, 549), (500, 599)):
        if more is not None:
            copy(*more)
        reads.of.clear()
        log = open_log(remote, f"{root}/orders-0", "orders", 0)
        found.append((len(log.segments), reads.of.count("log"), reads.of.count("leader_epoch_checkpoint")))
    lineage = 1  # the newest segment's leader epochs are read each time
    assert found == [(10, 10, 10 + lineage), (10, 0, lineage), (11, 1, 1 + lineage), (11, 1, 1 + lineage)]


def test_an_unknown_layout_or_option_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'woven' is not a layout: there are aiven, copies, kafka"):
        open_storage(str(tmp_path), "woven")
    with pytest.raises(ValueError, match=r"layout\.colour is not an option"):
        open_storage(str(tmp_path), "aiven", {"layout.colour": "blue"})
    with pytest.raises(ValueError, match=r"layout\.colour is not an option"):
        open_storage(str(tmp_path), "copies", {"layout.colour": "blue"})
    with pytest.raises(ValueError, match="belong to a layout"):
        open_storage(str(tmp_path), options={"layout.local": "/data"})


class Flat:
    """Somebody's own layout: all segments of all partitions in one folder, as `<topic>.<partition>.<offset>.seg`."""

    def __init__(self, storage: Storage, root: str, options: Mapping[str, str]) -> None:
        self.storage = storage
        self.root = root
        self.ending = options.get("ending", "seg")

    def _names(self) -> list[list[str]]:
        names = [entry.name.split(".") for entry in self.storage.list(self.root)]
        return [parts for parts in names if parts[-1] == self.ending]

    def partitions(self) -> list[RemotePartition]:
        places = {(topic, int(number)) for topic, number, _, _ in self._names()}
        return [RemotePartition(topic, number, None, f"{topic}.{number}") for topic, number in sorted(places)]

    def segments(self, partition: RemotePartition) -> list[RemoteSegment]:
        found = []
        for parts in self._names():
            if ".".join(parts[:2]) == partition.address:
                path = f"{self.root}/{'.'.join(parts)}"
                file = self.storage.open(path)
                found.append(RemoteSegment(int(parts[2]), path, file.size))
                file.close()
        return found

    def open(self, segment: RemoteSegment) -> OpenFile:
        return self.storage.open(segment.address)

    def read(self, segment: RemoteSegment, file: File) -> bytes:
        raise AssertionError(f"{file} was never promised")


def test_a_layout_of_one_s_own_comes_by_an_entry_point(
    uploads: Any, read: Read, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("flat", f"{__name__}:Flat", layouts.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: Flat)
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: EntryPoints([point]))
    (tmp_path / "flat").mkdir()
    for first, last in ((0, 49), (50, 99)):
        made = uploads.upload(first, last, epochs={0: 0}, compressed=False).with_suffix(".log")
        shutil.copy(made, tmp_path / "flat" / f"orders.0.{first}.piece")
    assert layouts.layout_names() == ["aiven", "copies", "flat", "kafka"]
    found = read(*open_storage(str(tmp_path / "flat"), "flat", {"layout.ending": "piece"}))
    assert [row[2] for row in found] == marked((range(100), b""))


def _folder(root: Path) -> tuple[Storage, str]:
    storage, path = open_storage(str(root), "aiven")
    return storage, f"{path}/orders-0"
