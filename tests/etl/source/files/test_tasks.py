"""Reads of files without a broker or Spark: how they are cut, and what they say of where rows come from."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kseg.client import TopicPartition
from kseg.client.errors import KafkaError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.files.tasks import FilesOf, pack, split_files
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark_format.options import ReadOptions
from kseg.etl.spark_format.planning import PartitionRange, plan_tasks
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import LocalStorage

TIME = 1_700_000_000_000
STORAGE = LocalStorage()


@pytest.fixture(scope="module")
def log_dir(log_files: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`large-0` of four segments with 500 batches of ten records each, and twenty small partitions."""
    folder = tmp_path_factory.mktemp("log-dir")
    rng = random.Random(1)

    def batch(base: int, records: int) -> bytes:
        return encode_batch(
            [Record(None, rng.randbytes(90), timestamp=TIME + base + n) for n in range(records)],
            base_offset=base,
            producer_id=77,
            producer_epoch=3,
            base_sequence=base,
            partition_leader_epoch=5,
        )

    segments = [[batch((segment * 500 + n) * 10, 10) for n in range(500)] for segment in range(4)]
    log_files.write_partition(folder / "large-0", segments)
    for number in range(20):
        log_files.write_partition(folder / f"small-{number}", [[batch(0, 10)], [batch(10, 5)]])
    return folder


def files(log_dir: Path) -> dict[TopicPartition, FilesOf]:
    found = {}
    for folder in sorted(log_dir.iterdir()):
        topic, number = folder.name.rsplit("-", 1)
        log = open_log(STORAGE, str(folder), topic, int(number))
        found[TopicPartition(topic, int(number))] = FilesOf(STORAGE, log, str(folder))
    return found


def whole(log_dir: Path) -> list[PartitionRange]:
    return [PartitionRange(tp.topic, tp.partition, 0, 20_000 if tp.topic == "large" else 15) for tp in files(log_dir)]


def offsets(tasks: tuple[RangeTask, ...], tp: TopicPartition) -> list[tuple[int, int]]:
    return sorted((task.start, task.end) for task in tasks if task.tp == tp)


@pytest.mark.parametrize(
    "limits",
    [{}, {"max_records": 700}, {"min_tasks": 60}, {"task_bytes": 100_000}, {"task_bytes": 5000, "max_records": 7}],
)
def test_tasks_are_the_ranges_within_limits(log_dir: Path, limits: dict[str, int]) -> None:
    tasks = split_files(whole(log_dir), files(log_dir), **limits)
    assert [task.index for task in tasks] == list(range(len(tasks)))
    for tp in files(log_dir):
        pieces = offsets(tasks, tp)
        assert [first for first, _ in pieces] == [0, *(last for _, last in pieces[:-1])]
        assert pieces[-1][1] == (20_000 if tp.topic == "large" else 15)
    assert len(tasks) >= limits.get("min_tasks", 1)
    assert all(task.length <= limits.get("max_records", 1 << 62) for task in tasks)
    assert sum(task.leads for task in tasks) == len(files(log_dir))
    assert split_files(whole(log_dir), files(log_dir), **limits) == tasks


def test_a_large_partition_gives_several_tasks_that_know_their_place(log_dir: Path) -> None:
    tasks = [task for task in split_files(whole(log_dir), files(log_dir), task_bytes=200_000) if task.topic == "large"]
    assert len(tasks) > 8
    sizes = [task.size for task in tasks]
    assert max(sizes) < 1.5 * min(sizes)
    log = files(log_dir)[TopicPartition("large", 0)].log
    for task in tasks:
        assert task.start_hint is not None
        (segment,) = [segment for segment in log.segments if segment.base_offset == task.start_hint.segment]
        frame = next(frames(Path(segment.path).read_bytes(), task.start_hint.position))
        assert frame.base_offset == task.start


def test_as_many_tasks_as_asked_for_where_there_are_that_many_offsets(log_dir: Path) -> None:
    small = [PartitionRange("small", 3, 0, 15)]
    assert len(split_files(small, files(log_dir), min_tasks=9)) == 9
    assert len(split_files(small, files(log_dir), min_tasks=99)) == 15
    with pytest.raises(ValueError, match="min_tasks must be positive"):
        split_files(small, files(log_dir), min_tasks=0)


def test_small_tasks_share_a_pack_and_large_ones_do_not(log_dir: Path) -> None:
    tasks = split_files(whole(log_dir), files(log_dir), task_bytes=500_000)
    packs = pack(tasks, pack_bytes=50_000)
    assert [task for one in packs for task in one] == list(tasks)
    assert max(map(len, packs)) > 10
    assert all(len(one) == 1 or sum(task.size for task in one) <= 50_000 for one in packs)
    assert len(pack(tasks, at_least=15, pack_bytes=50_000)) >= 15
    assert len(pack(tasks, at_least=len(tasks) + 5)) == len(tasks)
    assert pack(()) == []


def test_tasks_of_brokers_are_never_packed() -> None:
    tasks = [RangeTask("t", number, 0, 10, number) for number in range(5)]
    assert pack(tasks) == [(task,) for task in tasks]


def read(options: Mapping[str, str], **decode: Any) -> pa.Table:
    parsed = ReadOptions.parse(options)
    rows = DecodeOptions(isolation_level=parsed.isolation_level, provenance=parsed.include_provenance, **decode)
    batches = [batch for task in plan_tasks(parsed) for batch in RangeReader(task, parsed.origin, rows)]
    return pa.Table.from_batches(batches, rows.schema).sort_by([("partition", "ascending"), ("offset", "ascending")])


@pytest.mark.parametrize("engine", ["fast", "reference"])
def test_rows_tell_the_file_and_the_batch_that_they_are_from(log_dir: Path, engine: str) -> None:
    table = read(
        {
            "path": str(log_dir),
            "subscribe": "large",
            "includeProvenance": "true",
            "maxRecordsPerPartition": "3333",
            "startingOffsets": '{"large":{"0":4990}}',
            "endingOffsets": '{"large":{"0":5500}}',
        },
        engine=engine,
    )
    log = files(log_dir)[TopicPartition("large", 0)].log
    stands = {}
    for segment in log.segments:
        for frame in frames(Path(segment.path).read_bytes()):
            stands[frame.base_offset] = (segment.path, frame.position)
    assert table.column("offset").to_pylist() == list(range(4990, 5500))
    bases = table.column("batchBaseOffset").to_pylist()
    assert bases == [offset // 10 * 10 for offset in range(4990, 5500)]
    places = zip(table.column("file").to_pylist(), table.column("position").to_pylist(), strict=True)
    assert list(places) == [stands[base] for base in bases]
    assert set(table.column("producerId").to_pylist()) == {77}
    assert set(table.column("producerEpoch").to_pylist()) == {3}
    assert set(table.column("leaderEpoch").to_pylist()) == {5}
    assert table.column("sequence").to_pylist() == list(range(4990, 5500))
    assert set(table.column("transactional").to_pylist()) == {False}


def test_provenance_is_an_option_of_the_data_source(log_dir: Path) -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    from kseg.etl.spark_format.datasource import KsegDataSource
    from kseg.segment_reader.decode.schema import arrow_schema

    for headers in (False, True):
        options = {"path": str(log_dir), "includeProvenance": "true", "includeHeaders": str(headers)}
        told = to_arrow_schema(KsegDataSource(options).schema(), timezone="UTC")
        assert told.names == arrow_schema(headers=headers, provenance=True).names
        numbers = [pa.int32(), pa.int64(), pa.int16(), pa.int32(), pa.bool_(), pa.int64()]
        assert [field.type for field in told][-8:] == [*numbers, pa.string(), pa.int64()]


@pytest.fixture
def upgraded(log_files: Any, tmp_path: Path) -> dict[str, str]:
    """Options for a topic whose first 40 records are of message format 0."""
    old = [encode_message_set([Record(None, b"v")] * 4, magic=0, base_offset=base) for base in range(0, 40, 4)]
    new = [encode_batch([Record(None, b"v", timestamp=TIME + base)], base_offset=base) for base in range(40, 60)]
    log_files.write_partition(tmp_path / "t-0", [old, new])
    return {"path": str(tmp_path), "subscribe": "t"}


def test_a_range_by_time_over_records_without_one_is_refused_as_a_broker_does(upgraded: dict[str, str]) -> None:
    for edge in ("starting", "ending"):
        with pytest.raises(KafkaError, match=r"UNSUPPORTED_FOR_MESSAGE_FORMAT \(43\).*name offsets") as refused:
            read(upgraded | {f"{edge}Timestamp": str(TIME + 50)})
        assert refused.value.code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
        assert (refused.value.topic, refused.value.partition) == ("t", 0)
        assert not refused.value.retriable


def test_or_takes_all_of_them(upgraded: dict[str, str]) -> None:
    options = upgraded | {"untimed": "include", "startingTimestamp": str(TIME + 50), "endingTimestamp": str(TIME + 55)}
    assert read(options).column("offset").to_pylist() == list(range(55))
    del options["startingTimestamp"]
    assert read(options).column("offset").to_pylist() == list(range(55))
    with pytest.raises(ConfigurationError, match="neither refuse nor include"):
        read(upgraded | {"untimed": "perhaps"})
