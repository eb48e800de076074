"""`kseg dump` and `kseg metadata` on Kafka's own topics, as a person or a script meets them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result
from deltalake import DeltaTable

from kseg.client.protocol.embedded.framing import TypedMessage
from kseg.client.protocol.embedded.group_records import OffsetCommitKey, OffsetCommitValue
from kseg.client.protocol.embedded.internal_topics import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    TRANSACTION_STATE,
    encode_internal,
)
from kseg.client.protocol.embedded.metadata_records import ConfigRecord, PartitionRecord, TopicRecord
from kseg.client.protocol.embedded.transaction_records import TransactionLogKey, TransactionLogValue
from kseg.client.protocol.java_hash import coordinator_partition
from kseg.jobs.cli import cli
from kseg.jobs.commands.metadata import NAMES
from kseg.segment_reader.encode.batches import Record, encode_batch

GROUP, WRITER = "shipping", "writer"
NOON = 1_767_268_800_000  # 2026-01-01T12:00:00Z
ORDERS = UUID(int=11)


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, [str(arg) for arg in args])


def log(
    folder: Path, topic: str, partition: int, *messages: tuple[TypedMessage | None, TypedMessage | None, int]
) -> Path:
    place = folder / f"{topic}-{partition}"
    place.mkdir()
    path = place / f"{0:020d}.log"
    coded = [encode_internal(topic, *message) for message in messages]
    path.write_bytes(encode_batch([Record(*one, timestamp=NOON) for one in coded]) if coded else b"")
    return path


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    key = OffsetCommitKey(group=GROUP, topic="orders", partition=3)
    value = OffsetCommitValue(offset=42, leader_epoch=7, metadata="m", commit_timestamp=NOON)
    writer = TransactionLogValue(producer_id=9, producer_epoch=2, transaction_status=1, transaction_timeout_ms=60_000)
    for number in range(3):
        mine = coordinator_partition(GROUP, 3) == number
        log(folder, CONSUMER_OFFSETS, number, *([(key, value, 3)] if mine else []))
        mine = coordinator_partition(WRITER, 3) == number
        log(
            folder,
            TRANSACTION_STATE,
            number,
            *([(TransactionLogKey(transactional_id=WRITER), writer, 1)] if mine else []),
        )
    part = PartitionRecord(partition_id=0, topic_id=ORDERS, replicas=[5], isr=[5], leader=5, leader_epoch=1)
    secret = ConfigRecord(resource_type=4, resource_name="5", name="ssl.key.password", value="hunter2")
    told = [TopicRecord(name="orders", topic_id=ORDERS), part, secret]
    log(folder, CLUSTER_METADATA, 0, *((None, one, 0) for one in told))
    return folder


def offsets_log(log_dir: Path) -> Path:
    return log_dir / f"{CONSUMER_OFFSETS}-{coordinator_partition(GROUP, 3)}" / f"{0:020d}.log"


def test_records_are_decoded_by_the_folder_s_name(log_dir: Path) -> None:
    shown = run("dump", offsets_log(log_dir), "--deep")
    assert shown.exit_code == 0
    assert 'key: {"type":"1","data":{"group":"shipping","topic":"orders","partition":3}}' in shown.stdout
    assert 'payload: {"version":"3","data":{"offset":42,' in shown.stdout
    lines = run("dump", offsets_log(log_dir), "--deep", "--format", "json").stdout.splitlines()
    record = json.loads(lines[1])
    assert record["recordType"] == "OffsetCommit"
    assert record["decodedValue"]["data"]["offset"] == 42
    assert "key" not in record
    raw = json.loads(run("dump", offsets_log(log_dir), "--deep", "--raw", "--format", "json").stdout.splitlines()[1])
    assert "decodedValue" not in raw
    assert raw["keySize"] > 0


def test_an_option_decodes_a_copy_of_another_name(log_dir: Path, tmp_path: Path) -> None:
    copy = tmp_path / f"{0:020d}.log"
    copy.write_bytes(offsets_log(log_dir).read_bytes())
    assert "shipping" not in run("dump", copy).stdout
    assert '"group":"shipping"' not in run("dump", copy, "--deep").stdout
    assert '"group":"shipping"' in run("dump", copy, "--offsets-decoder").stdout  # implies --deep
    wrong = run("dump", copy, "--transaction-log-decoder")
    assert wrong.exit_code == 0
    assert "key type 1 is not known" in wrong.stdout
    assert "1 records are of types or versions that this release does not support" in wrong.stderr


@pytest.mark.parametrize("form", ["arrow", "parquet"])
def test_tables_have_the_documents_beside_the_bytes(log_dir: Path, tmp_path: Path, form: str) -> None:
    output = tmp_path / f"out.{form}"
    files = sorted(log_dir.glob("*/*.log"))
    done = run("dump", *files, "--deep", "--format", form, "--output", output)
    assert done.exit_code == 0, done.stderr
    table = pq.read_table(output) if form == "parquet" else pa.ipc.open_file(str(output)).read_all()
    rows = {row["recordType"]: row for row in table.to_pylist()}
    assert set(rows) == {"OffsetCommit", "TransactionLog", "Topic", "Partition", "Config"}
    commit = rows["OffsetCommit"]
    assert json.loads(commit["decodedKey"])["data"]["group"] == GROUP
    assert json.loads(commit["decodedValue"])["data"]["offset"] == 42
    assert commit["key"].endswith(b"\0\0\0\3")
    assert rows["Config"]["value"] is None
    assert "hunter2" not in str(table.to_pylist())


def test_secrets_are_shown_when_they_are_asked_for(log_dir: Path) -> None:
    file = log_dir / f"{CLUSTER_METADATA}-0" / f"{0:020d}.log"
    for form in ("text", "json"):
        assert "hunter2" not in run("dump", file, "--deep", "--format", form).output
        assert "hunter2" in run("dump", file, "--deep", "--format", form, "--show-secrets").output


def test_damaged_records_are_told_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / f"{CONSUMER_OFFSETS}-0"
    folder.mkdir()
    file = folder / f"{0:020d}.log"
    file.write_bytes(encode_batch([Record(key=b"\0\1\0\x09g", value=b"")]))
    done = run("dump", file, "--deep")
    assert done.exit_code == 1
    assert f"{file}, byte 0: record at offset 0" in done.stderr


def test_a_group_s_state(log_dir: Path) -> None:
    shown = run("dump", log_dir, "--group", GROUP, "--at", "2026-01-02T00:00:00Z")
    assert shown.exit_code == 0
    assert shown.stdout.startswith("shipping: classic group, Empty, 0 members, 1 offsets\n")
    assert "2026-01-08T12:00:00.000Z" in shown.stdout
    told = json.loads(run("dump", log_dir, "--group", GROUP, "--at", "2026-01-02T00:00:00Z", "--json").stdout)
    assert told["offsets"] == [
        {
            "topic": "orders",
            "partition": 3,
            "offset": 42,
            "leader_epoch": 7,
            "metadata": "m",
            "committed": "2026-01-01T12:00:00.000Z",
            "expires": "2026-01-08T12:00:00.000Z",
            "record_offset": 0,
        }
    ]
    assert (told["coordinator_partition"], told["of_partitions"], told["counted_by"]) == (
        f"{CONSUMER_OFFSETS}-{coordinator_partition(GROUP, 3)}",
        3,
        "folders",
    )
    late = run("dump", log_dir, "--group", GROUP, "--at", "2026-01-02T00:00:00Z", "--retention-minutes", "60", "--json")
    assert [one["offset"] for one in json.loads(late.stdout)["expired"]] == [42]


def test_a_transactional_id_s_state(log_dir: Path) -> None:
    shown = run("dump", log_dir, "--transactional-id", WRITER)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("writer: Ongoing, producer 9, epoch 2\n")
    told = json.loads(run("dump", log_dir, "--transactional-id", WRITER, "--json").stdout)
    assert (told["producer_id"], told["timeout_ms"], told["state"]) == (9, 60_000, "Ongoing")
    assert run("dump", log_dir, "--transactional-id", "nobody").stdout.startswith("nobody: there is no such")


def test_missing_folders_are_bad_configuration(log_dir: Path) -> None:
    offsets_log(log_dir).unlink()
    offsets_log(log_dir).parent.rmdir()
    gone = run("dump", log_dir, "--group", GROUP, "--partitions", "3")
    assert gone.exit_code == 2
    assert f"no folder {CONSUMER_OFFSETS}-{coordinator_partition(GROUP, 3)}" in gone.stderr


def test_how_many_partitions_there_are_is_in_the_metadata_log_too(log_dir: Path, tmp_path: Path) -> None:
    topic_id = UUID(int=5)
    records: list[TypedMessage] = [TopicRecord(name=CONSUMER_OFFSETS, topic_id=topic_id)]
    records += [PartitionRecord(partition_id=number, topic_id=topic_id, replicas=[1], isr=[1]) for number in range(3)]
    other = tmp_path / "other"
    other.mkdir()
    log(other, CLUSTER_METADATA, 0, *((None, one, 0) for one in records))
    mine = offsets_log(log_dir).parent
    assert mine.name == f"{CONSUMER_OFFSETS}-1"
    mine.rename(other / mine.name)

    def told() -> tuple[Any, ...]:
        found = json.loads(run("dump", other, "--group", GROUP, "--at", "2026-01-02T00:00:00Z", "--json").stdout)
        return found["counted_by"], found["of_partitions"], len(found["offsets"])

    assert told() == ("metadata log", 3, 1)
    log(other, CONSUMER_OFFSETS, 0)  # now the folders say 2, and lead to another partition
    assert coordinator_partition(GROUP, 2) == 0
    assert told() == ("metadata log", 3, 1)


@pytest.mark.parametrize(
    "args",
    [
        ["--group", "a", "--transactional-id", "b"],
        ["--group", "a", "--deep"],
        ["--transactional-id", "a", "--at", "2026-01-01T00:00:00Z"],
        ["--group", "a", "--at", "yesterday"],
        ["--json"],
    ],
)
def test_options_that_do_not_go_together_are_refused(log_dir: Path, args: list[str]) -> None:
    assert run("dump", log_dir, *args).exit_code == 2


def test_metadata_as_tables_for_people_and_as_json(log_dir: Path) -> None:
    shown = run("metadata", log_dir)
    assert shown.exit_code == 0
    assert shown.stdout.startswith("a cluster without a name at offset 3: 1 topics, 0 brokers\n")
    assert "hunter2" not in shown.stdout
    told = json.loads(run("metadata", log_dir, "--json").stdout)
    assert tuple(told) == NAMES
    assert told["partitions"][0]["offline_replicas"] == [5]
    assert json.loads(run("metadata", log_dir, "--json", "--at", "1", "--table", "partitions").stdout) == {
        "partitions": []
    }
    beyond = run("metadata", log_dir, "--at", "4")
    assert beyond.exit_code == 2
    assert "the log ends at offset 3" in beyond.stderr


def test_the_command_s_tables_are_those_that_there_are() -> None:
    from kseg.etl.internal_topics.metadata_tables import NAMES as THERE

    assert NAMES == THERE


def test_metadata_as_files(log_dir: Path, tmp_path: Path) -> None:
    for form in ("arrow", "parquet", "delta"):
        output = tmp_path / form
        for _ in range(2):  # a second time replaces
            done = run("metadata", log_dir, "--format", form, "--output", output)
            assert done.exit_code == 0, done.stderr
    assert pq.read_table(tmp_path / "parquet" / "topics.parquet").to_pylist()[0]["topic"] == "orders"
    with pa.ipc.open_file(str(tmp_path / "arrow" / "topics.arrow")) as file:
        assert file.read_all()["topic"].to_pylist() == ["orders"]
    delta = DeltaTable(str(tmp_path / "delta" / "partitions"))
    assert delta.to_pyarrow_table()["leader"].to_pylist() == [5]
    assert delta.history(1)[0]["end_offset"] == "3"
    assert run("metadata", log_dir, "--format", "delta").exit_code == 2
    refused = run("metadata", log_dir, "--format", "delta", "--output", tmp_path / "a%20b")
    assert refused.exit_code == 2
    assert "has the escape %20" in refused.stderr
    assert not (tmp_path / "a%20b").exists()
