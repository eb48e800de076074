"""`format("kseg")` on a log directory: the same rows as from the broker that wrote it."""

from __future__ import annotations

import base64
import itertools
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from kseg.client import TopicPartition, UnknownTopic
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OffsetsLost
from kseg.etl.source.files.log_directories import LogCatalog
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.reader import RangeReader
from kseg.etl.spark_format.datasource import KsegDataSource
from kseg.etl.spark_format.options import ReadOptions
from kseg.etl.spark_format.planning import plan_tasks
from kseg.jobs.demo.hard_topic import HardTopic
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.errors import SegmentGone
from kseg.segment_reader.log.files.storage import LocalStorage, StorageEntry

pytestmark = pytest.mark.broker

Rows = list[tuple[Any, ...]]


@pytest.fixture(scope="module")
def topic(kafka: Any) -> Iterator[HardTopic]:
    with HardTopic(kafka.bootstrap_servers, "hard-source", 2, scale=0.03) as hard:
        hard.create()
        hard.write_round()
        hard.write_round()
        yield hard


@pytest.fixture(scope="module")
def log_dir(kafka: Any) -> str:
    return str(kafka.log_dirs[0])


def options_for(where: dict[str, str], topic: str, **more: str) -> dict[str, str]:
    return where | {"subscribe": topic, "kafka.isolation.level": "read_committed"} | more


def read(options: dict[str, str]) -> Rows:
    """All rows, read in this process as a worker would."""
    parsed = ReadOptions.parse(options)
    decode = DecodeOptions(isolation_level=parsed.isolation_level, headers=True)
    rows: Rows = []
    for task in plan_tasks(parsed):
        for batch in RangeReader(task, parsed.origin, decode):
            rows += (tuple(row.values()) for row in batch.to_pylist())
    return sorted(rows, key=lambda row: (row[3], row[4]))


@pytest.mark.spark
@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_a_dataframe_of_files_has_the_broker_s_rows(
    spark: Any, kafka: Any, topic: HardTopic, log_dir: str, isolation: str
) -> None:
    spark.dataSource.register(KsegDataSource)
    reader = spark.read.format("kseg").option("subscribe", topic.name).option("includeHeaders", "true")
    reader = reader.option("kafka.isolation.level", isolation).option("minPartitions", "5")
    of_files = reader.option("path", log_dir).load()
    assert of_files.rdd.getNumPartitions() >= 5
    reader = spark.read.format("kseg").option("subscribe", topic.name).option("includeHeaders", "true")
    of_broker = reader.option("kafka.isolation.level", isolation)
    of_broker = of_broker.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load()
    assert of_files.schema == of_broker.schema
    order = ["partition", "offset"]
    assert of_files.orderBy(order).collect() == of_broker.orderBy(order).collect()


@pytest.mark.parametrize(
    "bounds",
    [
        {"startingTimestamp": "1767225800000", "startingOffsetsByTimestampStrategy": "latest"},
        {"startingTimestamp": "1767225700000", "endingTimestamp": "1767225900000"},
        {"startingTimestamp": "-1"},
        {"startingOffsetsByTimestamp": '{"hard-source":{"0":-3,"1":-3600000}}', "endingTimestamp": "1767225900000"},
        {"startingTimestamp": "-2", "endingTimestamp": "-1"},
        {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"},
        {"startingOffsets": '{"hard-source":{"0":100,"1":-2}}', "endingOffsets": '{"hard-source":{"0":700,"1":-1}}'},
    ],
)
def test_offsets_and_times_mean_what_they_mean_at_the_broker(
    kafka: Any, topic: HardTopic, log_dir: str, bounds: dict[str, str]
) -> None:
    of_files = read(options_for({"path": log_dir}, topic.name, **bounds))
    of_broker = read(options_for({"kafka.bootstrap.servers": kafka.bootstrap_servers}, topic.name, **bounds))
    assert of_files == of_broker


def test_without_a_subscription_all_topics_but_internal_ones_are_read(topic: HardTopic, log_dir: str) -> None:
    found = LogCatalog(LogFiles((log_dir,))).topics()
    assert topic.name in {tp.topic for tp in found}
    assert not any(tp.topic.startswith("__") for tp in found)


def test_of_two_copies_the_one_that_reaches_further_is_read(topic: HardTopic, log_dir: str, tmp_path: Path) -> None:
    source = Path(log_dir) / f"{topic.name}-0"
    shutil.copytree(source, tmp_path / source.name)
    last = sorted((tmp_path / source.name).glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
    (files,) = {
        task.folder.rsplit("/", 1)[0]
        for task in plan_tasks(
            ReadOptions.parse({"path": f"{tmp_path},{log_dir}", "assign": f'{{"{topic.name}":[0]}}'})
        )
    }
    assert files == log_dir


def test_of_two_copies_the_one_of_the_later_epoch_is_read(topic: HardTopic, log_dir: str, tmp_path: Path) -> None:
    """A broker that came back with an old leader's tail has the longer log, and the tail is nobody else's."""
    for folder, epochs in (("longer", "0\n1\n3 0\n"), ("later", "0\n2\n3 0\n5 90\n")):
        copy = Path(shutil.copytree(Path(log_dir) / f"{topic.name}-0", tmp_path / folder / f"{topic.name}-0"))
        (copy / "leader-epoch-checkpoint").write_text(epochs)
    last = sorted((tmp_path / "later" / f"{topic.name}-0").glob("*.log"))[-1]
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
    for order in (("longer", "later"), ("later", "longer")):
        catalog = LogCatalog(LogFiles(tuple(str(tmp_path / folder) for folder in order)))
        assert catalog.folder(TopicPartition(topic.name, 0)).startswith(str(tmp_path / "later"))


def test_directories_of_two_clusters_or_two_topics_are_told(topic: HardTopic, log_dir: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(Path(log_dir) / f"{topic.name}-0", tmp_path / f"{topic.name}-0"))
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAA\n")
    both = LogCatalog(LogFiles((log_dir, str(tmp_path))))
    with pytest.raises(ConfigurationError, match="is of cluster AAAA"):
        _ = both.cluster_id
    (copy / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    with pytest.raises(ConfigurationError, match=f"several topics called {topic.name}"):
        LogCatalog(LogFiles((log_dir, str(tmp_path)))).topics(topics=[topic.name])


def test_segments_that_retention_took_are_lost_or_recorded(topic: HardTopic, log_dir: str, tmp_path: Path) -> None:
    source = Path(log_dir) / f"{topic.name}-0"
    shutil.copytree(source, tmp_path / source.name)
    options = {"path": str(tmp_path), "assign": f'{{"{topic.name}":[0]}}'}
    (task,) = plan_tasks(ReadOptions.parse(options))
    second = int(sorted((tmp_path / source.name).glob("*.log"))[1].stem)
    sorted((tmp_path / source.name).glob("*.log"))[0].unlink()
    origin = LogFiles((str(tmp_path),))
    with pytest.raises(OffsetsLost) as lost:
        list(RangeReader(task, origin, DecodeOptions(isolation_level="read_uncommitted")))
    assert (lost.value.first, lost.value.last) == (0, second)
    reader = RangeReader(task, origin, DecodeOptions(isolation_level="read_uncommitted", on_data_loss="record"))
    rows = sum(batch.num_rows for batch in reader)
    assert rows == reader.result.data > 0
    assert [(gap.first, gap.last) for gap in reader.result.lost] == [(0, second)]


def test_damage_is_told_with_its_file_and_place(topic: HardTopic, log_dir: str, tmp_path: Path) -> None:
    source = Path(log_dir) / f"{topic.name}-1"
    shutil.copytree(source, tmp_path / source.name)
    first = sorted((tmp_path / source.name).glob("*.log"))[0]
    data = bytearray(first.read_bytes())
    # In the records, wherever batches begin: parts of a header are not under the checksum.
    batch = next(frame for frame in frames(bytes(data)) if frame.position + frame.size > 5000)
    data[batch.position + batch.size - 1] ^= 1
    first.write_bytes(data)
    options = {"path": str(tmp_path), "subscribe": topic.name}
    (task,) = plan_tasks(ReadOptions.parse(options))
    with pytest.raises(RecordFormatError, match="checksum") as told:
        list(RangeReader(task, LogFiles((str(tmp_path),)), DecodeOptions(isolation_level="read_uncommitted")))
    assert told.value.address.file == str(first)
    assert told.value.address.position == batch.position


def test_options_that_do_not_go_with_files_are_told() -> None:
    with pytest.raises(ConfigurationError) as told:
        ReadOptions.parse({"path": "/x", "startingOffsets": "committed", "kafka.bootstrap.servers": "b:1"})
    assert {fault.path for fault in told.value.faults} == {"startingOffsets", "kafka.bootstrap.servers"}


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such folder"):
        plan_tasks(ReadOptions.parse({"path": str(tmp_path / "gone")}))


def test_a_folder_that_goes_while_a_layout_lists_is_no_error_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store's retention removes a partition's last segment, and with it the folder."""
    (tmp_path / "orders-0").mkdir()
    listed = LocalStorage.list

    def gone(storage: LocalStorage, folder: str) -> list[StorageEntry]:
        found = listed(storage, folder)
        if folder == str(tmp_path):
            (tmp_path / "orders-0").rmdir()
        return found

    monkeypatch.setattr(LocalStorage, "list", gone)
    with pytest.raises(SegmentGone, match="orders-0"):
        LogCatalog(LogFiles((str(tmp_path),), layout="copies"))


def replica(log_dir: Path, name: str, last: int, epoch: int) -> str:
    """A folder of log.dirs with one replica of topic-0, of as many records."""
    folder = log_dir / name
    folder.mkdir(parents=True)
    batches = [encode_batch([Record(value=b"v")], base_offset=offset) for offset in range(last)]
    (folder / f"{0:020d}.log").write_bytes(b"".join(batches))
    (folder / "leader-epoch-checkpoint").write_text(f"0\n1\n{epoch} 0\n")
    return str(log_dir)


def test_of_several_replicas_the_latest_leader_s_is_read(tmp_path: Path) -> None:
    """However long the others are, and in whichever order they are named."""
    unique = "0123456789abcdef0123456789abcdef"
    replicas = [
        replica(tmp_path / "1", "topic-0", 5, 7),
        replica(tmp_path / "2", "topic-0", 9, 4),
        replica(tmp_path / "3", "topic-0", 8, 7),
        replica(tmp_path / "5", f"topic-0.{unique}-stray", 30, 9),
        replica(tmp_path / "6", f"topic-0.{unique}-delete", 40, 9),
    ]
    tp = TopicPartition("topic", 0)
    for order in itertools.permutations(replicas):
        assert LogCatalog(LogFiles(order)).bounds(tp).high_watermark == 8
    assert LogCatalog(LogFiles(tuple(replicas[3:]))).bounds(tp).high_watermark == 30


@pytest.mark.parametrize("name", ["startingOffsetsByTimestamp", "endingOffsetsByTimestamp"])
@pytest.mark.parametrize(
    ("times", "message"),
    [('{"topic":{"1":1}}', r"missing: topic-0; not read: topic-1"), ("{}", r"missing: topic-0; not read: -")],
)
def test_a_map_of_times_that_does_not_fit_the_partitions_is_told(
    tmp_path: Path, name: str, times: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        plan_tasks(ReadOptions.parse({"path": replica(tmp_path, "topic-0", 5, 7), name: times}))


def timed(folder: Path, *more: bytes) -> dict[str, str]:
    """Options of a log of ten records at 1000, 1001, … ms of which DeleteRecords has removed the first five."""
    (folder / "topic-0").mkdir()
    batches = [encode_batch([Record(value=b"v", timestamp=1000 + offset)], base_offset=offset) for offset in range(10)]
    (folder / "topic-0" / f"{0:020d}.log").write_bytes(b"".join([*batches, *more]))
    (folder / "log-start-offset-checkpoint").write_text("0\n1\ntopic 0 5\n")
    return options_for({"path": str(folder)}, "topic")


@pytest.mark.parametrize(
    ("bounds", "offsets"),
    [
        ({"startingTimestamp": "1002"}, range(5, 10)),
        ({"startingTimestamp": "-1"}, range(5, 10)),
        ({"startingTimestamp": "1007"}, range(7, 10)),
        ({"startingTimestamp": "1002", "endingTimestamp": "1008"}, range(5, 8)),
        ({"endingTimestamp": "1003"}, []),
    ],
)
def test_a_time_finds_no_record_below_the_log_start(
    tmp_path: Path, bounds: dict[str, str], offsets: Sequence[int]
) -> None:
    assert [row[4] for row in read(timed(tmp_path) | bounds)] == [*offsets]


@pytest.mark.parametrize(
    ("bounds", "offsets"),
    [
        ({"endingTimestamp": "1020"}, range(5, 10)),
        ({"startingTimestamp": "1020", "startingOffsetsByTimestampStrategy": "latest"}, []),
        ({"endingTimestamp": "1020", "kafka.isolation.level": "read_uncommitted"}, range(5, 11)),
    ],
)
def test_a_time_finds_no_record_above_the_last_stable_offset(
    tmp_path: Path, bounds: dict[str, str], offsets: Sequence[int]
) -> None:
    undecided = encode_batch(
        [Record(value=b"v", timestamp=1010)],
        base_offset=10,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    behind = encode_batch([Record(value=b"v", timestamp=1020)], base_offset=11)
    assert [row[4] for row in read(timed(tmp_path, undecided, behind) | bounds)] == [*offsets]


NEW, OLD = UUID(int=1), UUID(int=2)
UNIQUE = "0123456789abcdef0123456789abcdef"


def replica_of(log_dir: Path, name: str, topic_id: UUID) -> str:
    """`replica` with a topic id."""
    replica(log_dir, name, 3, 0)
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    (log_dir / name / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}\n")
    return str(log_dir)


def test_stray_replicas_of_a_deleted_topic_are_none_of_the_topic_that_has_its_name(tmp_path: Path) -> None:
    """A broker that was away while a topic was deleted and created again marks the old replicas as stray, and leaves
    them where they are."""
    for name in (f"topic-0.{UNIQUE}-stray", f"topic-1.{UNIQUE}-stray", "topic-0"):
        log_dir = replica_of(tmp_path, name, NEW if name == "topic-0" else OLD)
    catalog = LogCatalog(LogFiles((log_dir,)))
    assert {tp: found.topic_id for tp, found in catalog.topics(topics=["topic"]).items()} == {("topic", 0): NEW}
    with pytest.raises(UnknownTopic):
        catalog.bounds(TopicPartition("topic", 1))
    with pytest.raises(UnknownTopic):
        catalog.topics(assign={"topic": [1]})


def test_stray_replicas_of_a_topic_that_is_there_are_read_where_no_other_is(tmp_path: Path) -> None:
    for name in ("topic-0", f"topic-0.{UNIQUE}-stray", f"topic-1.{UNIQUE}-stray"):
        log_dir = replica_of(tmp_path, name, NEW)
    catalog = LogCatalog(LogFiles((log_dir,)))
    assert [catalog.folder(tp).rpartition("/")[2] for tp in catalog.topics()] == ["topic-0", f"topic-1.{UNIQUE}-stray"]


def test_logs_of_other_topics_are_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be thousands, in a store that takes its time for each file; and what is wrong with them is theirs."""
    for number in range(3):
        replica_of(tmp_path, f"topic-{number}", NEW)
        replica_of(tmp_path, f"other-{number}", NEW)
    replica_of(tmp_path, f"other-0.{UNIQUE}-future", OLD)
    looked: list[str] = []
    listed = LocalStorage.list
    monkeypatch.setattr(LocalStorage, "list", lambda storage, folder: looked.append(folder) or listed(storage, folder))
    options = ReadOptions.parse({"path": str(tmp_path), "subscribe": "topic"})
    assert sum(task.length for task in plan_tasks(options)) == 9
    assert {Path(folder).name for folder in looked} == {tmp_path.name, "topic-0", "topic-1", "topic-2"}
    with pytest.raises(ConfigurationError, match="several topics called other"):
        LogCatalog(LogFiles((str(tmp_path),))).topics(topics=["other"])
