"""What a broker leaves behind in its own topics, with what its clients heard of it before it went."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, Producer

from java_programs import java_with_kafka
from kseg.client import ClientConfig, Cluster, CommittedOffset, TopicPartition, commit_offsets
from kseg.client.admin.describe import describe_topics
from kseg.client.admin.groups import delete_group_offsets, delete_groups
from kseg.client.admin.share_groups import alter_share_offsets
from kseg.client.admin.transactions import describe_transactions
from kseg.client.groups.descriptions import describe_group
from kseg.client.groups.offsets import committed_offsets
from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.embedded.internal_topics import _LOGS, CLUSTER_METADATA, TOPICS
from kseg.client.protocol.messages.share_groups import ShareGroupHeartbeatRequest
from kseg.client.transactions.transaction import Transaction


@dataclass
class Groups:
    """Groups of all kinds at one broker. Names have the release in them; the topic is `orders`.

    classic     a consumer of the classic protocol; it lives
    modern      one of KIP-848; it lives (newer releases alone)
    left        a classic group whose member has left
    simple      no members: offsets 0: 7 committed in a transaction, 1: 5, 2: 9 in a transaction that is open,
                3: committed in a transaction that was aborted, 4: committed and then deleted
    deleted     a group that was deleted
    share       a share group (newer releases alone) whose member has left
    """

    kafka: Any
    log_dir: Path
    topic: str
    names: dict[str, str] = field(default_factory=dict)
    transactional_ids: dict[str, str] = field(default_factory=dict)
    living: list[Consumer] = field(default_factory=list)
    committed: dict[str, Any] = field(default_factory=dict)
    described: dict[str, Any] = field(default_factory=dict)
    transactions: dict[str, Any] = field(default_factory=dict)
    topics: Any = None

    def await_ends(self, cluster: Cluster) -> None:
        """Until both transactions that ended have their markers: EndTxn answers before."""
        deadline = time.monotonic() + 120
        names = [self.transactional_ids[kind] for kind in ("committed", "aborted")]
        while {one.state for one in describe_transactions(cluster, names).values()} != {
            "CompleteCommit",
            "CompleteAbort",
        }:
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def ask(self, cluster: Cluster) -> None:
        """What the broker tells of all of them: what the files are held against."""
        for kind, name in self.names.items():
            self.described[kind] = describe_group(cluster, name)
            self.committed[kind] = committed_offsets(cluster, name, require_stable=False)
        self.topics = describe_topics(cluster).or_raise()
        told = describe_transactions(cluster, list(self.transactional_ids.values())).or_raise()
        self.transactions = {kind: told[name] for kind, name in self.transactional_ids.items()}


def cluster_of(kafka: Any) -> Cluster:
    config = ClientConfig.from_properties({"bootstrap.servers": kafka.bootstrap_servers}, client_id="kseg-internals")
    return Cluster(config)


def member(kafka: Any, group: str, topic: str, **more: str) -> Consumer:
    """A consumer that has read a record and committed behind it."""
    base = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    consumer = Consumer(base | {"client.id": "somebody", "enable.auto.commit": False} | more)
    consumer.subscribe([topic])
    deadline = time.monotonic() + 120
    while (message := consumer.poll(1)) is None or message.error():
        assert time.monotonic() < deadline
    consumer.commit(message, asynchronous=False)
    return consumer


def make_groups(kafka: Any, log_dir: Path, topic: str, *, modern: bool) -> Groups:
    made = Groups(kafka, log_dir, topic)
    made.names = {kind: f"{kind}-gruppe-ä-\U0001f9ea" for kind in ("classic", "left", "simple", "deleted")}
    made.transactional_ids = {kind: f"writer-ü-{kind}" for kind in ("committed", "aborted", "open")}
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(5 * 12):
        producer.produce(topic, b"value", partition=number % 5)
    producer.flush(60)
    made.living.append(member(kafka, made.names["classic"], topic))
    member(kafka, made.names["left"], topic).close()
    if modern:
        made.names["modern"] = "modern-gruppe-ä-\U0001f9ea"
        made.living.append(member(kafka, made.names["modern"], topic, **{"group.protocol": "consumer"}))
    with cluster_of(kafka) as cluster:

        def at(number: int) -> TopicPartition:
            return TopicPartition(topic, number)

        simple, gone = made.names["simple"], made.names["deleted"]
        commit_offsets(cluster, simple, {at(1): CommittedOffset(5, 0, "mit Ümlaut"), at(4): CommittedOffset(1)})
        commit_offsets(cluster, gone, {at(0): CommittedOffset(1), at(1): CommittedOffset(1)})
        for kind, partition, offset in (("committed", 0, 7), ("aborted", 3, 3), ("open", 2, 9)):
            transaction = Transaction(cluster, made.transactional_ids[kind], timeout_ms=600_000)
            transaction.begin()
            transaction.add_offsets(simple)
            transaction.commit_offsets(simple, {at(partition): CommittedOffset(offset)})
            if kind != "open":
                transaction.commit() if kind == "committed" else transaction.abort()
        delete_group_offsets(cluster, simple, [at(4)]).or_raise()
        delete_groups(cluster, [gone]).or_raise()
        if modern:
            made.names["share"] = "share-gruppe-ä"
            share(cluster, made.names["share"], at(0))
        made.await_ends(cluster)
        made.ask(cluster)
    return made


def share(cluster: Cluster, group: str, tp: TopicPartition) -> None:
    """A share group whose one member has come and gone, with state of one partition."""
    who = str(uuid.uuid4())

    def heartbeat(epoch: int, topics: list[str] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest(
            group_id=group, member_id=who, member_epoch=epoch, subscribed_topic_names=topics
        )
        answer = cluster.send(request, coordinator=("group", group))
        assert answer.error_code == 0, answer
        return answer

    answer = heartbeat(0, [tp.topic])
    deadline = time.monotonic() + 120
    while answer.assignment is None or not answer.assignment.topic_partitions:
        assert time.monotonic() < deadline
        time.sleep(0.2)
        answer = heartbeat(answer.member_epoch)
    heartbeat(-1)
    alter_share_offsets(cluster, group, {tp: 1}).or_raise()


@pytest.fixture(scope="session")
def groups(kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Groups:
    return left_behind(kafka, tmp_path_factory.mktemp("newest"), modern=True)


@pytest.fixture(scope="session")
def old_groups(kafka_release: Callable[[str], Any], tmp_path_factory: pytest.TempPathFactory) -> Groups:
    """The same of Kafka 3.9.2, which writes older versions of the records."""
    return left_behind(kafka_release("3.9.2"), tmp_path_factory.mktemp("older"), modern=False)


def left_behind(kafka: Any, folder: Path, *, modern: bool) -> Groups:
    """Groups as they are now. The broker goes on, and others' tests with it: members that nobody polls are thrown out,
    and the open transaction comes to its timeout. So the files are a copy, of what is about these groups alone."""
    (log_dir,) = kafka.log_dirs
    topic = kafka.topic(5, prefix="internals")
    made = make_groups(kafka, folder, topic, modern=modern)
    for path in log_dir.iterdir():
        if path.is_dir() and path.name.rsplit("-", 1)[0] in (*TOPICS, topic):
            shutil.copytree(path, folder / path.name, ignore=shutil.ignore_patterns("*.tmp"))
        elif path.name in ("meta.properties", "bootstrap.checkpoint"):
            shutil.copy(path, folder)
    for consumer in made.living:
        consumer.close()
    return made


@pytest.fixture
def as_read() -> Callable[[Any], Any]:
    """A document as a program that reads JSON gets it."""
    return lambda document: json.loads(json.dumps(document, allow_nan=False))


@pytest.fixture(scope="session")
def java_dump() -> Callable[..., list[str]]:
    """Lines of Kafka's own dump tool (4.3.1) for these files, with one of its decoders."""

    def run(decoder: str, *files: Path) -> list[str]:
        command = java_with_kafka("-Xmx256m")
        command += ["org.apache.kafka.tools.DumpLogSegments", f"--{decoder}", "--files", ",".join(map(str, files))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return done.stdout.splitlines()

    return run


@pytest.fixture(scope="session")
def any_metadata() -> Callable[[random.Random], list[TypedMessage]]:
    """Records of the metadata log in any order, about few enough things that they meet."""
    ids = [UUID(int=number) for number in (0, 1, 2, 77)]
    texts = ["", "orders", "ä"]

    def value(rng: random.Random, field: Any, version: int) -> Any:
        if field.nullable.has(version) and rng.random() < 0.2:
            return None
        if field.kind == "array":
            return [one(rng, field, field.of, version) for _ in range(rng.randrange(3))]
        return one(rng, field, field.of if isinstance(field.of, type) else field.kind, version)

    def one(rng: random.Random, field: Any, kind: Any, version: int) -> Any:
        if isinstance(kind, type):
            return struct(rng, kind, version)
        if kind == "uuid":
            return rng.choice(ids)
        if kind == "string":
            return rng.choice(texts)
        if kind == "bytes":
            return rng.randbytes(2)
        return rng.choice([True, False]) if kind == "bool" else rng.choice([-1, 0, 1, 2, 3])

    def struct(rng: random.Random, cls: Any, version: int) -> Any:
        fields = {field.name: value(rng, field, version) for field in cls.FIELDS if field.versions.has(version)}
        return cls(**fields)

    def made(rng: random.Random) -> list[TypedMessage]:
        types = [*_LOGS[CLUSTER_METADATA].values()]
        return [struct(rng, cls, cls.VERSIONS.highest) for cls in rng.choices(types, k=60)]

    return made
