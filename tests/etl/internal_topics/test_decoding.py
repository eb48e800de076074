"""Records of Kafka's own topics, as Kafka's own dump tool tells them from the same files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.client.protocol.embedded.internal_topics import TOPICS
from kseg.etl.internal_topics.decoding import internal_topic_of, with_meaning
from kseg.etl.internal_topics.locations import LogDirs
from kseg.etl.internal_topics.metadata_log import read_metadata
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.files.dump import Entry, Findings, dump
from kseg.segment_reader.log.files.storage import LocalStorage
from skips import full_scale_only

pytestmark = pytest.mark.broker

STORAGE = LocalStorage()
CONTROL = {
    "LEADER_CHANGE": "LeaderChange:",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def told(
    path: Path, *, topic: str | None = None, secrets: bool = True, findings: Findings | None = None
) -> list[Entry]:
    """The records of a file, decoded by its folder's name."""
    found = Findings() if findings is None else findings
    entries = dump(STORAGE, str(path), found, deep=True)
    wanted = internal_topic_of(str(path)) if topic is None else topic
    records = [e for e in with_meaning(entries, str(path), wanted, found, secrets=secrets) if e["kind"] == "record"]
    if findings is None:
        assert found.faults == []
    return records


def java_text(entry: Entry) -> str:
    """How Kafka's tool ends the line of a record."""
    if entry["control"] is not None:
        document = entry["decodedValue"]
        if entry["control"] in CONTROL:
            return f"{CONTROL[entry['control']]} {compact(document)}"
        return f"endTxnMarker: {entry['control']} coordinatorEpoch: {document['coordinatorEpoch']}"
    payload = "<DELETE>" if entry["value"] is None else compact(entry["decodedValue"])
    key = "" if entry["decodedKey"] is None else f"key: {compact(entry['decodedKey'])} "
    return f"{key}payload: {payload}"


#: A float in Java's words: 1.0E9 is JSON's 1000000000.0.
SCIENTIFIC = re.compile(r"(?<=:)-?\d\.\d+E-?\d+(?=[,}])")


def compact(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def compare(lines: list[str], entries: list[Entry]) -> None:
    records = [line for line in lines if line.startswith("| ")]
    assert len(records) == len(entries) > 0
    for line, entry in zip(records, entries, strict=True):
        found = re.fullmatch(r"\| offset: (\d+) .*? headerKeys: \[\] (.*?)", line)
        assert found is not None, line
        told = SCIENTIFIC.sub(lambda number: repr(float(number[0])), found[2])
        assert (found[1], java_text(entry)) == (str(entry["offset"]), told)


def logs(folder: Path, topic: str) -> list[Path]:
    return sorted(folder.glob(f"{topic}-*/*.log"))


@pytest.mark.parametrize("release", ["4.3.1", pytest.param("3.9.2", marks=full_scale_only)])
@pytest.mark.parametrize(
    ("topic", "decoder", "types"),
    [
        ("__consumer_offsets", "offsets-decoder", {"OffsetCommit", "GroupMetadata", "COMMIT", "ABORT"}),
        ("__transaction_state", "transaction-log-decoder", {"TransactionLog"}),
        ("__cluster_metadata", "cluster-metadata-decoder", {"Topic", "Partition", "LEADER_CHANGE", "RegisterBroker"}),
    ],
)
def test_records_say_what_kafka_s_tool_says(
    request: pytest.FixtureRequest,
    java_dump: Callable[..., list[str]],
    topic: str,
    decoder: str,
    types: set[str],
    release: str,
) -> None:
    groups = request.getfixturevalue("groups" if release == "4.3.1" else "old_groups")
    files = logs(groups.log_dir, topic)
    entries = [entry for path in files for entry in told(path)]
    compare(java_dump(decoder, *files), entries)
    seen = Counter(entry["recordType"] for entry in entries)
    modern = {f"ConsumerGroup{kind}" for kind in ("Metadata", "MemberMetadata", "CurrentMemberAssignment")}
    wanted = types | modern if (topic, release) == ("__consumer_offsets", "4.3.1") else types
    assert wanted <= seen.keys(), seen
    if topic == "__consumer_offsets":
        assert any(entry["value"] is None for entry in entries)


def test_share_groups_state_says_what_kafka_s_tool_says(groups: Any, java_dump: Callable[..., list[str]]) -> None:
    files = logs(groups.log_dir, "__share_group_state")
    entries = [entry for path in files for entry in told(path)]
    compare(java_dump("share-group-state-decoder", *files), entries)
    assert {entry["recordType"] for entry in entries} >= {"ShareSnapshot"}


def test_metadata_snapshots_say_what_kafka_s_tool_says(groups: Any, java_dump: Callable[..., list[str]]) -> None:
    folder = groups.log_dir / "__cluster_metadata-0"
    files = sorted(folder.glob("*.checkpoint"))
    entries = [entry for path in files for entry in told(path)]
    compare(java_dump("cluster-metadata-decoder", *files), entries)
    assert {"SNAPSHOT_HEADER", "SNAPSHOT_FOOTER"} <= {entry["recordType"] for entry in entries}
    assert {entry["recordType"] for entry in told(groups.log_dir / "bootstrap.checkpoint")} >= {"FeatureLevel"}


def test_the_metadata_log_of_an_older_release_is_replayed(old_groups: Any) -> None:
    image = read_metadata(LogDirs([str(old_groups.log_dir)])).image
    ours = {
        topic.name: {
            number: (part.leader, part.leader_epoch, part.replicas) for number, part in topic.partitions.items()
        }
        for topic in image.topics.values()
    }
    asked = {
        name: {number: (one.leader, one.leader_epoch, one.replicas) for number, one in topic.partitions.items()}
        for name, topic in old_groups.topics.items()
    }
    assert {name: ours[name] for name in asked} == asked
    assert old_groups.topic in asked
    assert [broker.fenced for broker in image.brokers.values()] == [False]
    assert image.features["metadata.version"] < 30


def test_the_topic_is_told_by_the_folder_s_name() -> None:
    for topic in TOPICS:
        assert internal_topic_of(f"/data/{topic}-12/{170:020d}.log") == topic
    assert internal_topic_of(f"/data/__cluster_metadata-0/{170:020d}-{2:010d}.checkpoint") == "__cluster_metadata"
    assert internal_topic_of("/data/bootstrap.checkpoint") == "__cluster_metadata"
    assert internal_topic_of(f"/data/orders-0/{170:020d}.log") is None
    assert internal_topic_of(f"/data/__consumer_offsets-0/{170:020d}.index") is None
    assert internal_topic_of(f"/data/__consumer_offsets-0.{'0' * 32}-delete/{170:020d}.log") == "__consumer_offsets"


def written(folder: Path, *records: Record) -> Path:
    path = folder / f"{0:020d}.log"
    path.write_bytes(encode_batch(records, base_offset=0))
    return path


def test_what_is_newer_is_told_with_its_bytes(tmp_path: Path) -> None:
    known = b"\0\1\0\1g\0\1t\0\0\0\3"
    path = written(
        tmp_path,
        Record(key=b"\x03\xe7new", value=b"\0\1"),
        Record(key=known, value=b"\0\x63new"),
        Record(value=b"\0\1"),
    )
    first, second, third = told(path, topic="__consumer_offsets")
    assert (first["recordType"], first["undecoded"]) == (None, "key type 999 is not known")
    assert second["undecoded"] == "version 99 of OffsetCommitValue is not known"
    assert second["decodedKey"] == {"type": "1", "data": {"group": "g", "topic": "t", "partition": 3}}
    assert second["value"] == b"\0\x63new"
    assert third["undecoded"] == "the record has no key"
    newer = written(tmp_path, Record(value=b"\1\2\x09"), Record(value=b"\1\x7f\0"), Record(value=b"\2\2\0"))
    assert [entry["undecoded"] for entry in told(newer, topic="__cluster_metadata")] == [
        "version 9 of TopicRecord is not known",
        "type 127 is not known",
        "frame version 2 is not known",
    ]


def test_damage_is_told_with_its_address_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = written(tmp_path, Record(key=b"\0\1\0\x7fg", value=b"\0\1"), Record(key=b"\0\2\0\1g", value=None))
    findings = Findings()
    damaged, whole = told(path, topic="__consumer_offsets", findings=findings)
    assert damaged["undecoded"] == "it is damaged"
    assert whole["decodedKey"] == {"type": "2", "data": {"group": "g"}}
    (fault,) = findings.faults
    assert (fault.file, fault.position) == (str(path), 0)
    assert "record at offset 0" in fault.reason


def test_secrets_are_hidden_unless_they_are_asked_for(tmp_path: Path) -> None:
    from kseg.client.protocol.embedded.internal_topics import encode_internal
    from kseg.client.protocol.embedded.metadata_records import ConfigRecord, UserScramCredentialRecord

    scram = UserScramCredentialRecord(
        name="bob", mechanism=1, salt=b"salt!", stored_key=b"stored", server_key=b"server"
    )
    settings = [
        ConfigRecord(name=name, value="v4lue") for name in ("ssl.key.password", "ssl.keystore.key", "retention.ms")
    ]
    values = [encode_internal("__cluster_metadata", None, one, 0)[1] for one in (scram, *settings)]
    path = written(tmp_path, *(Record(value=value) for value in values))
    hidden = told(path, topic="__cluster_metadata", secrets=False)
    text = str(hidden)
    assert text.count("v4lue") == 2  # of retention.ms, as bytes and as text
    assert "salt" not in text.replace("'salt'", "")
    assert [entry["value"] is None for entry in hidden] == [True, True, True, False]
    assert str(told(path, topic="__cluster_metadata")).count("v4lue") == 6
