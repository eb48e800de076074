"""`format("kseg")` beside `format("kafka")`: the same words give the same rows in every column, or are both refused."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient, NewTopic

from kseg.client import ClientConfig, Cluster, TopicPartition
from kseg.client.groups.offsets import CommittedOffset, commit_offsets
from kseg.client.producer import KafkaProducer
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import NoProgress
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark_format.datasource import KsegDataSource
from kseg.etl.spark_format.pyspark_kseg import DefaultSource
from kseg.jobs.broker import jars
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set

pytestmark = [pytest.mark.broker, pytest.mark.spark]

PEER = "spark-kafka-4.2.0"
# In 2026; topics with such records keep them, or the broker would remove them as too old.
SECOND = 1_767_225_600_000
EMPTIED = "emptied"
# Spark's source waits so long for offsets that do not come, two minutes if nothing is said.
HASTY = {"kafkaConsumer.pollTimeoutMs": "1000"}


@pytest.fixture(scope="module")
def session(spark: Any) -> Any:
    """The shared session with our source; Spark finds it by itself where the package is installed as a whole."""
    if importlib.util.find_spec("pyspark_kseg") is None:
        spark.dataSource.register(KsegDataSource)
    return spark


@pytest.fixture(scope="module")
def peer(session: Any) -> Any:
    """The session with Spark's own Kafka source too."""
    folder = jars.ensure(PEER) if PEER in jars.locked_sets() else jars.directory(PEER)
    found = sorted(folder.glob("*.jar"))
    if not found:
        pytest.skip(f"the jars of Spark's Kafka source are not in {folder}")
    for jar in found:
        session.sql(f"ADD JAR '{jar}'")
    return session


def load(session: Any, source: str, servers: str, **options: str) -> Any:
    reader = session.read.format(source).option("kafka.bootstrap.servers", servers)
    return reader.options(**{key.replace("__", "."): value for key, value in options.items()}).load()


def rows_of(frame: Any) -> list[Any]:
    exact = frame.selectExpr("*", "unix_micros(timestamp) AS micros").drop("timestamp")
    return sorted(exact.collect(), key=lambda row: (row.topic, row.partition, row.offset))


@pytest.fixture(scope="module")
def same(peer: Any, kafka: Any) -> Callable[..., list[Any]]:
    """same(**options): asserts that both sources give the same schema and rows; gives the rows."""

    def same(servers: str | None = None, **options: str) -> list[Any]:
        servers = servers or kafka.bootstrap_servers
        ours, theirs = (load(peer, source, servers, **options) for source in ("kseg", "kafka"))
        assert ours.schema == theirs.schema
        found = rows_of(ours)
        assert found == rows_of(theirs)
        return found

    return same


@pytest.fixture(scope="module")
def topic(kafka: Any, produce: Callable[..., None]) -> str:
    """Three partitions in three codecs, with everything that can be null or empty; a second between records."""
    name: str = kafka.topic(partitions=3, prefix="parity", config={"retention.ms": "-1"})
    odd: list[Any] = [None, [], [("a", b"1")], [("a", None), ("b", b""), ("a", b"2")], [("schlüssel", b"\x00\xff")]]
    for partition, codec in enumerate(["lz4", "gzip", "zstd"]):
        records = [
            (partition, (None, b"", b"k")[n % 3], (b"v" * n, None, b"")[n % 3], odd[n % 5], SECOND + 1000 * n)
            for n in range(40)
        ]
        produce(name, records, **{"compression.type": codec, "batch.num.messages": 7})
    return name


def test_every_column_is_equal(same: Callable[..., list[Any]], topic: str) -> None:
    found = same(subscribe=topic, includeHeaders="true")
    assert len(found) == 120
    assert any(row.headers is None for row in found)
    assert len(same(subscribe=topic)) == 120


def test_header_names_that_are_not_utf8_are_those_of_java(same: Callable[..., list[Any]], kafka: Any) -> None:
    topic = kafka.topic(1)
    names = [b"caf\xe9", b"\xed\xa0\x80", b"\xe2\x82", b"\xf0\x9f\x98", b"\xc0\x80x", "\u00e9".encode(), b""]
    with KafkaProducer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for name in names:
            producer.send(topic, b"v", headers=[(name, b"1"), ("ok", None)])
    found = same(subscribe=topic, includeHeaders="true")
    assert [row.headers[0].key for row in found][:2] == ["caf\ufffd", "\ufffd"]
    assert len(same(subscribe=topic)) == len(names)


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"startingOffsets": '{"TOPIC":{"0":5,"1":-2,"2":39}}'}, 35 + 40 + 1),
        ({"endingOffsets": '{"TOPIC":{"0":0,"1":-1,"2":17}}'}, 0 + 40 + 17),
        ({"startingTimestamp": str(SECOND + 10_500)}, 3 * 29),
        ({"startingTimestamp": str(SECOND + 1000), "endingTimestamp": str(SECOND + 3000)}, 3 * 2),
        ({"endingTimestamp": str(SECOND + 10**9)}, 120),
        ({"startingOffsetsByTimestamp": '{"TOPIC":{"0":0,"1":SECOND,"2":SECOND}}'}, 120),
        ({"endingOffsetsByTimestamp": '{"TOPIC":{"0":0,"1":SECOND,"2":SECOND}}'}, 0),
        (
            {"startingTimestamp": str(SECOND + 10**9), "startingOffsetsByTimestampStrategy": "latest"},
            0,
        ),
        ({"minPartitions": "7"}, 120),
        ({"maxRecordsPerPartition": "9"}, 120),
        ({"kafka.isolation.level": "read_committed"}, 120),
    ],
)
def test_bounds_mean_the_same(same: Callable[..., list[Any]], topic: str, options: dict[str, str], count: int) -> None:
    told = {key: value.replace("TOPIC", topic).replace("SECOND", str(SECOND)) for key, value in options.items()}
    assert len(same(subscribe=topic, **told)) == count


def test_topics_are_found_the_same_way(same: Callable[..., list[Any]], topic: str) -> None:
    assert len(same(subscribePattern=topic[2:-1] + ".$")) == 120
    assert len(same(subscribePattern=f"^{topic[2:]}")) == 0
    assert len(same(assign=f'{{"{topic}":[0,2]}}')) == 80
    assert len(same(subscribe=f" {topic} , {topic}")) == 120


def test_transactions(same: Callable[..., list[Any]], transactions: Any) -> None:
    transactions.run(producers=3, steps=30, seed=11, open_at_end=True)
    committed = same(subscribe=transactions.topic, kafka__isolation__level="read_committed")
    assert {bytes(row.value) for row in committed} <= set(transactions.committed)
    everything = same(subscribe=transactions.topic)
    assert len(everything) > len(committed) > 0


def test_splits_as_asked(session: Any, kafka: Any, topic: str) -> None:
    def slices(**options: str) -> int:
        frame = load(session, "kseg", kafka.bootstrap_servers, subscribe=topic, **options)
        return frame.rdd.getNumPartitions()  # type: ignore[no-any-return]

    assert slices() == 3
    assert slices(minPartitions="7") == 7
    assert slices(maxRecordsPerPartition="9") == 15


# -- refusals


@pytest.mark.parametrize(
    "options",
    [
        {"endingOffsets": "earliest"},
        {"assign": '{"TOPIC":[0]}'},
        {"minPartitions": "0"},
        {"kafka.auto.offset.reset": "earliest"},
        {"kafka.enable.auto.commit": "true"},
        {"startingTimestamp": "soon"},
        {"includeHeaders": "perhaps"},
        {"startingOffsets": '{"TOPIC":{"0":9,"1":0,"2":0}}', "endingOffsets": '{"TOPIC":{"0":8,"1":9,"2":9}}'},
    ],
)
def test_what_one_refuses_at_load_the_other_does(peer: Any, kafka: Any, topic: str, options: dict[str, str]) -> None:
    told = {key: value.replace("TOPIC", topic) for key, value in options.items()}
    for source in ("kafka", "kseg"):
        with pytest.raises(Exception, match=r".") as caught:
            load(peer, source, kafka.bootstrap_servers, subscribe=topic, **told)
        name = next(iter(options)).removeprefix("kafka.") if len(options) == 1 else "offset"
        assert source == "kafka" or name.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    "options",
    [
        # A stream may begin there, and `load` does not know which of the two it is for.
        {"startingOffsets": "latest"},
        {"startingOffsets": '{"TOPIC":{"0":-1,"1":0,"2":0}}'},
        {"startingOffsets": '{"TOPIC":{"0":0,"1":0}}'},
        {"startingTimestamp": str(SECOND + 10**9)},
        {"endingOffsets": '{"TOPIC":{"0":1000,"1":-1,"2":-1}}'},
        {"startingTimestamp": str(SECOND + 30_000), "endingTimestamp": str(SECOND)},
    ],
)
def test_what_one_refuses_when_read_the_other_does(peer: Any, kafka: Any, topic: str, options: dict[str, str]) -> None:
    told = {key: value.replace("TOPIC", topic) for key, value in options.items()}
    for source in ("kafka", "kseg"):
        with pytest.raises(Exception, match=r"."):
            load(peer, source, kafka.bootstrap_servers, subscribe=topic, **told, **HASTY).collect()


def test_a_schema_of_the_users_own_is_refused(session: Any, kafka: Any, topic: str) -> None:
    reader = session.read.format("kseg").schema("value string").option("subscribe", topic)
    frame = reader.option("kafka.bootstrap.servers", kafka.bootstrap_servers)
    with pytest.raises(Exception, match="fixed schema"):
        frame.load().collect()


@pytest.fixture(scope="module")
def trimmed(kafka: Any, produce: Callable[..., None]) -> str:
    name: str = kafka.topic(prefix="trimmed")
    produce(name, [(0, b"k", b"v")] * 20, **{"batch.num.messages": 1})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    for done in admin.delete_records([Place(name, 0, 8)]).values():
        done.result(30)
    return name


def test_data_loss_fails_or_is_passed_over(peer: Any, kafka: Any, same: Callable[..., list[Any]], trimmed: str) -> None:
    lost = {"subscribe": trimmed, "startingOffsets": f'{{"{trimmed}":{{"0":3}}}}'}
    for source in ("kafka", "kseg"):
        with pytest.raises(Exception, match="offsets 3 to 7" if source == "kseg" else "."):
            load(peer, source, kafka.bootstrap_servers, **lost).collect()
    assert [row.offset for row in same(**lost, failOnDataLoss="false")] == list(range(8, 20))
    ended = {"subscribe": trimmed, "endingOffsets": f'{{"{trimmed}":{{"0":30}}}}', "failOnDataLoss": "false"}
    assert [row.offset for row in rows_of(load(peer, "kseg", kafka.bootstrap_servers, **ended))] == list(range(8, 20))


# -- beyond Spark's source


def test_reading_from_a_groups_committed_offsets(session: Any, kafka: Any, cluster: Cluster, topic: str) -> None:
    group = f"{topic}-group"
    commit_offsets(cluster, group, {TopicPartition(topic, p): CommittedOffset(o) for p, o in ((0, 38), (1, 40))})
    options = {"subscribe": topic, "startingOffsets": "committed", "kafka.group.id": group}
    found = rows_of(load(session, "kseg", kafka.bootstrap_servers, **options))
    assert [(row.partition, row.offset) for row in found] == [(0, 38), (0, 39), *((2, n) for n in range(40))]


def test_the_module_that_spark_looks_for_names_the_source() -> None:
    assert DefaultSource.name() == "kseg"
    assert issubclass(DefaultSource, KsegDataSource)


# -- logs of old formats


@pytest.fixture(scope="module")
def old_logs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[str]]]:
    """A broker with logs that its ancestors wrote, put below it while it stood: a topic for each magic and codec."""
    rows = [Record(b"k", b"v", timestamp=SECOND), Record(None, b"", timestamp=SECOND + 1), Record(b"", None)]
    logs = {
        f"magic{magic}-{codec}": encode_message_set(rows, magic=magic, compression=codec)
        + encode_message_set(rows, magic=magic, compression=codec, base_offset=3)
        for magic in (0, 1)
        for codec in ("none", "gzip", "snappy", "lz4")
    }
    logs["magic1-appended"] = encode_message_set(
        rows, magic=1, compression="gzip", timestamp_type=1, timestamp=SECOND + 5
    )
    logs["magic2"] = encode_batch([*rows, Record(b"k", b"v", [("a", b"1"), ("a", None)])], compression="zstd")
    logs["upgraded"] = (
        encode_message_set(rows, magic=0, compression="gzip")
        + encode_message_set(rows, magic=1, base_offset=3)
        + encode_batch(rows, base_offset=6, compression="lz4")
    )
    config = {"log.retention.ms": "-1"}
    with EmbeddedKafka(tmp_path_factory.mktemp("old"), config=config, light=True) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        new = [NewTopic(name, 1, 1) for name in (*logs, EMPTIED)]
        for created in admin.create_topics(new, operation_timeout=30).values():
            created.result(30)
        del admin
        node = broker.nodes[0].id
        broker.stop_node(node)
        (folder,) = broker.log_dirs
        for name, log in logs.items():
            _replace_log(folder / f"{name}-0", log)
        _replace_log(folder / f"{EMPTIED}-0", encode_batch(rows, compression="lz4"))
        (folder / f"{EMPTIED}-0" / f"{50:020}.log").touch()
        for checkpoint in folder.glob("*-checkpoint"):
            checkpoint.unlink()
        (folder / ".kafka_cleanshutdown").unlink(missing_ok=True)
        broker.restart(node)
        yield broker.bootstrap_servers, sorted(logs)


def _replace_log(folder: Path, log: bytes) -> None:
    for file in folder.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    (folder / f"{0:020}.log").write_bytes(log)


def test_a_log_whose_end_compaction_has_emptied(old_logs: tuple[str, list[str]]) -> None:
    """The last segment has no batch yet, the one before keeps three records of fifty: a record behind proves it."""
    properties = {"bootstrap.servers": old_logs[0], "fetch.max.wait.ms": "50", "default.api.timeout.ms": "2000"}
    config = ClientConfig.from_properties(properties, client_id="x")
    with pytest.raises(NoProgress) as caught:
        list(RangeReader(RangeTask(EMPTIED, 0, 1, 50), config, DecodeOptions()))
    assert caught.value.address["offset"] == 3
    producer = Producer({"bootstrap.servers": old_logs[0]})
    producer.produce(EMPTIED, value=b"behind")
    assert producer.flush(60) == 0
    reader = RangeReader(RangeTask(EMPTIED, 0, 1, 50), config, DecodeOptions())
    assert [offset for batch in reader for offset in batch.column("offset").to_pylist()] == [1, 2]
    assert reader.result.accounted
    assert (reader.result.data, reader.result.absent, reader.result.gaps) == (2, 47, ((3, 50),))
    assert reader.result.high_watermark == 51


@pytest.mark.rule(98, 143)
def test_logs_of_every_magic(same: Callable[..., list[Any]], old_logs: tuple[str, list[str]]) -> None:
    servers, topics = old_logs
    found = same(servers, subscribe=",".join(topics), includeHeaders="true")
    assert len(found) == 8 * 6 + 3 + 4 + 9
    by_topic = {name: [row for row in found if row.topic == name] for name in topics}
    assert {row.micros for row in by_topic["magic0-none"]} == {-1000}
    assert {row.timestampType for row in by_topic["magic0-none"]} == {-1}
    assert {(row.micros, row.timestampType) for row in by_topic["magic1-appended"]} == {((SECOND + 5) * 1000, 1)}
    assert [row.offset for row in by_topic["upgraded"]] == list(range(9))
