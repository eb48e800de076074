"""Ranges read from a broker's own files, against what an independent consumer gets from that broker."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from control_batches import encode_control_batch
from kseg.jobs.demo.hard_topic import HardTopic
from kseg.segment_reader.decode.batch import ABORT_MARKER, COMMIT_MARKER
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.errors import LogDamaged, LogEndsEarly, LogFileError, UndecidedTransaction
from kseg.segment_reader.log.files.object_stores import ArrowStorage
from kseg.segment_reader.log.files.segments import PartitionLog, open_log, partition_folders
from kseg.segment_reader.log.files.storage import LocalStorage, Storage
from kseg.segment_reader.log.scan.bounds import last_stable_offset, log_end_offset, open_transactions
from kseg.segment_reader.log.scan.record_sets import record_sets

pytestmark = pytest.mark.broker

Isolation = Literal["read_committed", "read_uncommitted"]
Row = tuple[int, bytes | None, bytes | None]
STORAGE = LocalStorage()
PARTITIONS = 2


@pytest.fixture(scope="module")
def topic(kafka: Any) -> Iterator[HardTopic]:
    """Two rounds of plain, committed, aborted and open records in all codecs, over several segments."""
    with HardTopic(kafka.bootstrap_servers, "hard-files", PARTITIONS, scale=0.1) as hard:
        hard.create()
        hard.write_round()
        hard.write_round()
        yield hard


@pytest.fixture(scope="module")
def logs(kafka: Any, topic: HardTopic) -> list[PartitionLog]:
    folder = str(kafka.log_dirs[0])
    return [open_log(STORAGE, f"{folder}/{topic.name}-{number}", topic.name, number) for number in range(PARTITIONS)]


@pytest.fixture(scope="module")
def consumed(kafka: Any, topic: HardTopic) -> Callable[[int, Isolation], list[Row]]:
    """What librdkafka reads of a partition."""
    found: dict[tuple[int, Isolation], list[Row]] = {}

    def rows(partition: int, isolation: Isolation) -> list[Row]:
        if (partition, isolation) not in found:
            found[partition, isolation] = consume(kafka.bootstrap_servers, topic.name, partition, isolation)
        return found[partition, isolation]

    return rows


def consume(bootstrap_servers: str, topic: str, partition: int, isolation: Isolation) -> list[Row]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "files",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    rows: list[Row] = []
    while True:
        for message in consumer.consume(5000, timeout=0.5):
            if message.error() is None:
                rows.append((message.offset(), message.key(), message.value()))
            elif message.error().code() == KafkaError._PARTITION_EOF:
                consumer.close()
                return rows
            else:
                raise AssertionError(message.error())


def read(
    log: PartitionLog, start: int, end: int, isolation: Isolation, storage: Storage = STORAGE, **options: Any
) -> list[Row]:
    decoder = RangeDecoder(log.topic, log.partition, start, end, isolation_level=isolation)
    rows: list[Row] = []
    committed = isolation == "read_committed"
    for found in record_sets(storage, log, start, end, read_committed=committed, **options):
        for batch in decoder.feed(found.records, found.aborted):
            rows += as_rows(batch)
    for batch in decoder.finish():
        rows += as_rows(batch)
    counts = decoder.counts
    assert counts.data + counts.control + counts.aborted + counts.absent == end - start
    if counts.absent:
        raise Absent(decoder.gaps)
    return rows


class Absent(Exception):
    """Offsets that no batch tells about: in a log that is not compacted a job stops at them."""


def as_rows(batch: Any) -> list[Row]:
    return list(zip(*(batch.column(name).to_pylist() for name in ("offset", "key", "value")), strict=True))


@pytest.mark.rule(98, 263)
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_rows_are_those_that_a_consumer_gets(
    logs: list[PartitionLog], consumed: Callable[..., list[Row]], partition: int, isolation: Isolation
) -> None:
    log = logs[partition]
    assert len(log.segments) > 1
    end = last_stable_offset(STORAGE, log) if isolation == "read_committed" else log_end_offset(STORAGE, log)
    assert read(log, 0, end, isolation) == consumed(partition, isolation)


def test_any_range_any_window_gives_that_part(logs: list[PartitionLog], consumed: Callable[..., list[Row]]) -> None:
    rng = random.Random(7)
    log, rows = logs[0], consumed(0, "read_committed")
    stable = last_stable_offset(STORAGE, log)
    for _ in range(25):
        start, end = sorted(rng.sample(range(stable + 1), 2))
        window, piece = rng.choice([1, 5000, 1 << 20]), rng.choice([1, 70_000])
        expected = [row for row in rows if start <= row[0] < end]
        assert read(log, start, end, "read_committed", window_bytes=window, piece_bytes=piece) == expected


def test_what_is_open_ends_the_stable_part(kafka: Any, logs: list[PartitionLog]) -> None:
    from confluent_kafka import IsolationLevel, TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for log in logs:
        place = TopicPartition(log.topic, log.partition)
        stable = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
        assert stable[place].result(30).offset == last_stable_offset(STORAGE, log)
    (opened,) = open_transactions(STORAGE, logs[0])
    assert opened.first_offset == last_stable_offset(STORAGE, logs[0]) < log_end_offset(STORAGE, logs[0])
    with pytest.raises(UndecidedTransaction, match=f"from offset {opened.first_offset} on has no marker"):
        read(logs[0], 0, opened.first_offset + 1, "read_committed")


def test_a_range_behind_the_end_is_refused(logs: list[PartitionLog]) -> None:
    end = log_end_offset(STORAGE, logs[1])
    with pytest.raises(LogEndsEarly) as refused:
        read(logs[1], end - 5, end + 1, "read_uncommitted")
    assert refused.value.offset == end


def test_indexes_are_hints_alone(logs: list[PartitionLog], consumed: Callable[..., list[Row]], tmp_path: Path) -> None:
    """Missing, empty, stale, of another segment, or with every byte changed: the rows stay the same."""
    source, rows = logs[0], consumed(0, "read_committed")
    stable = last_stable_offset(STORAGE, source)
    start = stable * 2 // 3
    expected = [row for row in rows if start <= row[0]]
    rng = random.Random(3)

    def spoil(name: str, change: Callable[[bytes], bytes]) -> None:
        folder = tmp_path / name
        shutil.copytree(source.folder, folder)
        for ending in ("index", "timeindex", "txnindex"):
            for path in folder.glob(f"*.{ending}"):
                path.write_bytes(change(path.read_bytes()))
        log = open_log(STORAGE, str(folder), source.topic, source.partition)
        assert read(log, start, stable, "read_committed") == expected, name

    spoil("empty", lambda data: b"")
    spoil("cut", lambda data: data[: len(data) // 2 + 3])
    spoil("noise", lambda data: rng.randbytes(len(data)))
    spoil("zeros", lambda data: bytes(len(data)))
    spoil("shifted", lambda data: b"".join(_shifted(data[at : at + 8]) for at in range(0, len(data), 8)))


def _shifted(entry: bytes) -> bytes:
    if len(entry) < 8 or not any(entry):
        return entry
    return entry[:4] + (int.from_bytes(entry[4:], "big") + 7).to_bytes(4, "big")


def test_every_flipped_byte_is_told_or_harmless(
    kafka: Any, logs: list[PartitionLog], tmp_path: Path, scale: Callable[[int, int], int]
) -> None:
    """A flipped bit never gives another row: the answer is the right one, or an error that names file and place."""
    from kseg.segment_reader.encode.batches import Record, encode_batch

    batches, offset = [], 0
    for number in range(6):
        producer = 100 + number % 2
        records = [Record(key=b"k%d" % number, value=b"value %d %d" % (number, n)) for n in range(3)]
        batches.append(
            encode_batch(
                records, base_offset=offset, producer_id=producer, producer_epoch=0, base_sequence=0, transactional=True
            )
        )
        offset += 3
        if number >= 2:
            batches.append(
                encode_control_batch(
                    COMMIT_MARKER if number % 3 else ABORT_MARKER, base_offset=offset, producer_id=producer
                )
            )
            offset += 1
    data = b"".join(batches)
    folder = tmp_path / "flip-0"
    folder.mkdir()
    file = folder / f"{0:020d}.log"
    file.write_bytes(data)
    right = read(open_log(STORAGE, str(folder), "flip", 0), 0, offset, "read_committed")
    assert 0 < len(right) < offset
    step = scale(7, 1)
    told = 0
    for at in range(0, len(data), step):
        for bit in (0x01, 0x80):
            changed = bytearray(data)
            changed[at] ^= bit
            file.write_bytes(changed)
            try:
                found = read(open_log(STORAGE, str(folder), "flip", 0), 0, offset, "read_committed")
            except (LogFileError, RecordFormatError, Absent):
                told += 1
            else:
                assert found == right, f"byte {at}, bit {bit:#x}"
    assert told > len(data) // step


def test_every_length_of_a_torn_file_gives_its_beginning(logs: list[PartitionLog], tmp_path: Path) -> None:
    source = Path(logs[1].segments[-1].path)
    base = logs[1].segments[-1].base_offset
    data = source.read_bytes()[:60_000]
    folder = tmp_path / "torn-1"
    folder.mkdir()
    file = folder / source.name
    file.write_bytes(data)
    whole = read_all(folder, base)
    for length in [*range(0, 2000, 111), *range(2000, len(data), 4_999)]:
        for tail in (b"", bytes(3000)):
            file.write_bytes(data[:length] + tail)
            if tail and length:
                continue  # zeros behind half a batch are a damaged batch: see the next test
            found = read_all(folder, base)
            assert found == whole[: len(found)]


def test_zeros_behind_half_a_batch_are_told(logs: list[PartitionLog], tmp_path: Path) -> None:
    source = Path(logs[1].segments[-1].path)
    folder = tmp_path / "zeros-1"
    folder.mkdir()
    data = source.read_bytes()[:60_000]
    (folder / source.name).write_bytes(data + bytes(200_000))
    log = open_log(STORAGE, str(folder), "zeros", 1)
    with pytest.raises((LogFileError, RecordFormatError)):
        read(log, logs[1].segments[-1].base_offset, log_end_offset(STORAGE, log), "read_uncommitted")


def read_all(folder: Path, base: int) -> list[Row]:
    log = open_log(STORAGE, str(folder), "torn", 1)
    return read(log, base, max(base, log_end_offset(STORAGE, log)), "read_uncommitted")


def test_a_missing_or_swapped_segment_is_never_silent(logs: list[PartitionLog], tmp_path: Path) -> None:
    source = logs[0]
    folder = tmp_path / "swapped"
    shutil.copytree(source.folder, folder)
    first, second = (folder / Path(segment.path).name for segment in source.segments[:2])
    kept = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(kept)
    log = open_log(STORAGE, str(folder), source.topic, 0)
    with pytest.raises(LogDamaged):
        read(log, 0, last_stable_offset(STORAGE, source), "read_uncommitted")


def test_arrow_file_systems_give_the_same_rows(logs: list[PartitionLog], consumed: Callable[..., list[Row]]) -> None:
    from pyarrow import fs

    storage = ArrowStorage(fs.LocalFileSystem())
    log = open_log(storage, logs[1].folder, logs[1].topic, 1)
    end = log_end_offset(storage, log)
    assert read(log, 0, end, "read_uncommitted", storage) == consumed(1, "read_uncommitted")


def test_folders_of_partitions_are_found(kafka: Any, topic: HardTopic) -> None:
    folders = partition_folders(STORAGE, str(kafka.log_dirs[0]))
    found = {(folder.topic, folder.partition) for folder in folders.values() if folder.replica == "current"}
    assert {(topic.name, number) for number in range(PARTITIONS)} <= found


def test_topic_id_and_leader_epochs_come_from_the_files(logs: list[PartitionLog], kafka: Any) -> None:
    from kseg.client import ClientConfig, Cluster

    config = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}, client_id="files")
    with Cluster(config) as cluster:
        told = cluster.metadata([logs[0].topic]).topics[logs[0].topic]
    for log in logs:
        assert log.topic_id == told.topic_id
        assert log.leader_epochs[-1].epoch == told.partitions[log.partition].leader_epoch
        assert log.notes == ()
