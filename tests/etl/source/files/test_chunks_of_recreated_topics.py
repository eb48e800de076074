"""Tasks whose topic was deleted and created again since it was planned, and remote partitions that are new to a worker.

A worker keeps the storage of a location from task to task, and with it a layout's map of partitions.
"""

from __future__ import annotations

import base64
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kseg.client import TopicPartition
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OffsetsLost, TopicRecreated
from kseg.etl.source.files.log_directories import LogCatalog
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.storage import LocalStorage
from kseg.segment_reader.log.layouts.remote import BytesFile, RemotePartition, RemoteSegment, RemoteStorage

OLD, NEW = UUID(int=1), UUID(int=2)
TP = TopicPartition("orders", 0)


def records(first: int, last: int, value: bytes) -> bytes:
    """A segment with offsets [first, last), a batch each."""
    return b"".join(encode_batch([Record(value=value)], base_offset=offset) for offset in range(first, last))


def rows(task: RangeTask, files: LogFiles, on_data_loss: Any = "fail") -> list[tuple[int, bytes]]:
    options = DecodeOptions(isolation_level="read_uncommitted", on_data_loss=on_data_loss)
    return [
        row
        for batch in RangeReader(task, files, options)
        for row in zip(batch.column("offset").to_pylist(), batch.column("value").to_pylist(), strict=True)
    ]


# -- a broker's own folders


def folder(root: Path, topic_id: UUID | None, *bases: int, last: int, value: bytes) -> None:
    """orders-0 in a folder of log.dirs, anew: segments from these offsets on."""
    path = root / "orders-0"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    for first, end in zip(bases, (*bases[1:], last), strict=True):
        (path / f"{first:020d}.log").write_bytes(records(first, end, value))
    if topic_id is not None:
        text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
        (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}")


def planned(root: Path) -> RangeTask:
    catalog = LogCatalog(LogFiles((str(root),)))
    topics = {tp.topic: topic.topic_id for tp, topic in catalog.topics().items()}
    bounds = catalog.bounds(TP)
    whole = RangeTask("orders", 0, bounds.start, bounds.high_watermark)
    (task,) = catalog.tasks([whole], topic_ids=topics)
    return task


@pytest.mark.parametrize("on_data_loss", ["fail", "record"])
def test_a_topic_recreated_after_the_plan_is_not_read_at_the_planned_offsets(tmp_path: Path, on_data_loss: str) -> None:
    folder(tmp_path, OLD, 0, last=5, value=b"old")
    task = planned(tmp_path)
    folder(tmp_path, NEW, 0, last=9, value=b"new")
    with pytest.raises(TopicRecreated, match=f"{OLD}.* {NEW}"):
        rows(task, LogFiles((str(tmp_path),)), on_data_loss)


def test_a_topic_recreated_while_it_is_read_ends_the_task(tmp_path: Path) -> None:
    folder(tmp_path, OLD, 0, 5, last=9, value=b"old")
    options = DecodeOptions(isolation_level="read_uncommitted")
    batches = iter(RangeReader(planned(tmp_path), LogFiles((str(tmp_path),)), options))
    with pytest.raises(TopicRecreated):
        for _ in _with_change_at_second_segment(tmp_path, batches):
            pass


def _with_change_at_second_segment(root: Path, batches: Any) -> Any:
    opened = LocalStorage.open

    def open_and_change(storage: LocalStorage, path: str) -> Any:
        if path.endswith(f"{5:020d}.log"):
            folder(root, NEW, 0, last=9, value=b"new")
        return opened(storage, path)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalStorage, "open", open_and_change)
        yield from batches


@pytest.mark.parametrize(("then", "now"), [(None, NEW), (OLD, None), (OLD, OLD)])
def test_a_topic_is_the_same_unless_both_ids_are_known(tmp_path: Path, then: UUID | None, now: UUID | None) -> None:
    folder(tmp_path, then, 0, last=5, value=b"a")
    task = planned(tmp_path)
    folder(tmp_path, now, 0, last=5, value=b"b")
    assert rows(task, LogFiles((str(tmp_path),))) == [(offset, b"b") for offset in range(5)]


# -- a remote layout, in a worker that has read of it before


class Uploaded:
    """A layout in memory: of each (topic, topic id) partition 0 with one segment, in the order of upload."""

    def __init__(self) -> None:
        self.segments_of: dict[tuple[str, UUID], list[RemoteSegment]] = {}
        self.data: dict[str, bytes] = {}
        self.listings = 0

    def upload(self, topic: str, topic_id: UUID, last: int, value: bytes) -> None:
        data = records(0, last, value)
        address = f"{topic}/{topic_id}"
        self.data[address] = data
        segment = RemoteSegment(0, address, len(data), last, (), len(self.data), {"log": len(data)})
        self.segments_of[topic, topic_id] = [segment]

    def partitions(self) -> list[RemotePartition]:
        self.listings += 1
        return [RemotePartition(topic, 0, topic_id, f"{topic}/{topic_id}") for topic, topic_id in self.segments_of]

    def segments(self, partition: RemotePartition) -> list[RemoteSegment]:
        assert partition.topic_id is not None
        return self.segments_of.get((partition.topic, partition.topic_id), [])

    def open(self, segment: RemoteSegment) -> BytesFile:
        return BytesFile(segment.address, self.data[segment.address])

    def read(self, segment: RemoteSegment, file: str) -> bytes:
        raise AssertionError(file)


class Worker(LogFiles):
    """A worker's log directories: one storage for all of its tasks."""

    storage: RemoteStorage

    def open(self, location: str) -> tuple[Any, str]:
        return self.storage, "root"


def worker(layout: Uploaded, local: Path | None = None) -> Worker:
    files = Worker(("root",))
    own = None if local is None else (LocalStorage(), str(local))
    object.__setattr__(files, "storage", RemoteStorage(layout, LocalStorage(), "root", own))
    return files


def task_of(topic: str, topic_id: UUID, last: int) -> RangeTask:
    return RangeTask(topic, 0, 0, last, topic_id=topic_id, folder=f"root/{topic}-0")


@pytest.fixture
def layout() -> Uploaded:
    made = Uploaded()
    made.upload("orders", OLD, 5, b"old")
    return made


def test_a_recreated_topic_is_read_by_a_worker_that_has_read_the_old_one(layout: Uploaded) -> None:
    files = worker(layout)
    assert len(rows(task_of("orders", OLD, 5), files)) == 5
    layout.upload("orders", NEW, 5, b"new")
    assert rows(task_of("orders", NEW, 5), files) == [(offset, b"new") for offset in range(5)]
    with pytest.raises(TopicRecreated):
        rows(task_of("orders", OLD, 5), files)


def test_a_topic_that_was_uploaded_later_is_read_by_a_worker_that_has_read_another(layout: Uploaded) -> None:
    files = worker(layout)
    rows(task_of("orders", OLD, 5), files)
    layout.upload("bills", NEW, 3, b"bill")
    assert rows(task_of("bills", NEW, 3), files) == [(offset, b"bill") for offset in range(3)]
    assert layout.listings == 2, "tasks list all partitions only if they have to"
    rows(task_of("orders", OLD, 5), files)
    assert layout.listings == 2
    with pytest.raises(SegmentGone):
        rows(task_of("none", NEW, 3), files)


def test_segments_that_moved_from_the_broker_to_the_store_are_read_by_a_worker(
    layout: Uploaded, tmp_path: Path
) -> None:
    """The broker's retention removed them locally after the worker had listed the store."""
    folder(tmp_path, OLD, 0, 3, last=5, value=b"old")
    segments, layout.segments_of = layout.segments_of, {}
    files = worker(layout, tmp_path)
    assert len(rows(task_of("orders", OLD, 5), files)) == 5
    layout.segments_of = segments
    (tmp_path / "orders-0" / f"{0:020d}.log").unlink()
    assert len(rows(task_of("orders", OLD, 5), files)) == 5
    layout.segments_of = {}
    with pytest.raises(OffsetsLost):
        rows(replace(task_of("orders", OLD, 5), start=1), files)


def test_a_partition_s_later_folder_is_read_by_a_worker_that_has_listed_the_earlier_ones(tmp_path: Path) -> None:
    """A folder for each day: the worker's map of partitions has those that were there when it was made."""
    files = LogFiles((str(tmp_path),), layout="copies")

    def day(name: str, first: int, last: int) -> RangeTask:
        (tmp_path / name / "orders-0").mkdir(parents=True)
        (tmp_path / name / "orders-0" / f"{first:020d}.log").write_bytes(records(first, last, b"v"))
        return RangeTask("orders", 0, 0, last, folder=f"{tmp_path}/orders-0")

    assert len(rows(day("monday", 0, 5), files)) == 5
    both = day("tuesday", 5, 9)
    assert [offset for offset, _ in rows(both, files)] == [*range(9)]
    with pytest.raises(OffsetsLost):
        rows(replace(both, end=10), files)
