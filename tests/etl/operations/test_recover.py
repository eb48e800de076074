"""What a real broker left behind, damaged: what can be read lands in a real table, what cannot in another, once."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from deltalake import DeltaTable, write_deltalake

from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.errors import ConfigurationError
from kseg.etl.operations.backfill import run_backfill
from kseg.etl.operations.recover import quarantined, recover, recovery_job
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.run.pipeline import run_ingest
from kseg.jobs.cli import cli
from kseg.jobs.demo.hard_topic import HardTopic
from kseg.segment_reader.decode.aborted_past_damage import UNDECIDED

pytestmark = [pytest.mark.broker, pytest.mark.spark]

Row = tuple[int, int, bytes | None, bytes | None]


def consume(servers: str, topic: str, partitions: int, isolation: str) -> set[Row]:
    """What librdkafka reads: (partition, offset, key, value)."""
    settings = {"bootstrap.servers": servers, "group.id": "recover", "enable.auto.commit": False}
    consumer = Consumer(settings | {"isolation.level": isolation, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    rows: set[Row] = set()
    ended = 0
    while ended < partitions:
        for message in consumer.consume(5000, timeout=0.5):
            error = message.error()
            if error is None:
                rows.add((message.partition(), message.offset(), message.key(), message.value()))
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended += 1
    consumer.close()
    return rows


@dataclass
class Left:
    """A copy of a log directory, and what a consumer read of it before."""

    log_dir: Path
    topic: str
    committed: set[Row]

    def segments(self, partition: int) -> list[Path]:
        return sorted((self.log_dir / f"{self.topic}-{partition}").glob("*.log"))


@pytest.fixture(scope="module")
def written(kafka: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Left]:
    with HardTopic(kafka.bootstrap_servers, "hard-recover", 2, scale=0.05) as hard:
        hard.create()
        hard.write_round()
        hard.write_round()
        copy = tmp_path_factory.mktemp("left")
        rows = consume(kafka.bootstrap_servers, hard.name, 2, "read_committed")
        for partition in range(2):
            name = f"{hard.name}-{partition}"
            shutil.copytree(kafka.log_dirs[0] / name, copy / name)
        yield Left(copy, hard.name, rows)


@pytest.fixture
def left(written: Left, tmp_path: Path) -> Left:
    """A copy of one's own to damage."""
    shutil.copytree(written.log_dir, tmp_path / "data")
    return Left(tmp_path / "data", written.topic, written.committed)


def flip(path: Path, at: int, length: int = 1) -> None:
    data = bytearray(path.read_bytes())
    data[at : at + length] = bytes(byte ^ 0x5A for byte in data[at : at + length])
    path.write_bytes(data)


def harm(left: Left) -> None:
    """A flipped byte, a page of noise, a segment that was cut, a flipped bit in an offset."""
    one, other = left.segments(0), left.segments(1)
    flip(one[0], one[0].stat().st_size // 2)
    flip(one[1], one[1].stat().st_size // 3, 4096)
    other[0].write_bytes(other[0].read_bytes()[: other[0].stat().st_size * 2 // 3])
    flip(other[1], 7)


def rows_of(table: str) -> list[Row]:
    columns = ["partition", "offset", "key", "value"]
    return [tuple(row.values()) for row in DeltaTable(table).to_pyarrow_table(columns=columns).to_pylist()]


def kept_of(table: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(table).to_pyarrow_table().to_pylist()
    return rows


def test_a_quarantine_is_read_without_a_thread_that_could_abort_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow's threads abort a process that ends while they are in a file system written in Python."""

    def no_python(*_: Any) -> None:
        raise AssertionError("Arrow's threads would run Python")

    monkeypatch.setattr("deltalake.fs.DeltaStorageHandler.from_table", no_python)
    place = {"topic": "orders", "partition": 0, "last_offset": 9, "reason": "torn", "file": "0.log", "length": 7}
    rows = [place | {"first_offset": first, "position": first, "piece_position": piece}
            for first in (5, 2) for piece in (0, 1)]  # fmt: skip
    write_deltalake(tmp_path / "quarantine", pa.Table.from_pylist(rows))
    assert [damaged.first_offset for damaged in quarantined(str(tmp_path / "quarantine"))] == [2, 5]
    assert quarantined(str(tmp_path / "none")) == []


def test_all_that_can_be_read_lands_and_the_rest_is_kept(spark: Any, left: Left, tmp_path: Path) -> None:
    harm(left)
    table = str(tmp_path / "out")
    call = ["recover", str(left.log_dir), "--to", table, "--json"]
    told = CliRunner().invoke(cli, call)
    assert told.exit_code == 1, (told.stdout, told.stderr)
    report = json.loads(told.stdout)
    rows = rows_of(table)
    assert len(rows) == len(set(rows)) == report["rows"]

    def missing(partition: int, offset: int) -> bool:
        return any(
            d["partition"] == partition and d["first_offset"] <= offset < d["last_offset"] for d in report["damaged"]
        )

    # A consumer saw nothing of transactions that are open at the end, nor of what stands behind them.
    ends = {number: max(row[1] for row in left.committed if row[0] == number) for number in range(2)}
    assert {row for row in rows if row[1] <= ends[row[0]]} <= left.committed
    lost = left.committed - set(rows)
    assert lost
    assert all(missing(partition, offset) for partition, offset, _, _ in lost)
    assert not any(missing(partition, offset) for partition, offset, _, _ in rows)

    # Every damaged byte is kept, where it stood.
    for kept in kept_of(table + "_quarantine"):
        if kept["bytes"] is not None:
            at = kept["position"] + kept["piece_position"]
            assert Path(kept["file"]).read_bytes()[at : at + len(kept["bytes"])] == kept["bytes"]

    # fsck tells the same damage.
    checked = CliRunner().invoke(cli, ["fsck", str(left.log_dir), "--deep", "--json"])
    assert checked.exit_code == 1
    places = ("file", "position", "length", "first_offset", "last_offset", "reason")
    of_fsck = {tuple(f[p] for p in places) for f in json.loads(checked.stdout)["faults"] if f["length"] is not None}
    assert of_fsck == {tuple(d[p] for p in places) for d in report["damaged"] if d["reason"] != UNDECIDED}

    # Again: nothing changes.
    versions = [DeltaTable(path).version() for path in (table, table + "_quarantine")]
    again = CliRunner().invoke(cli, call)
    assert again.exit_code == 1
    assert json.loads(again.stdout)["damaged"] == report["damaged"]
    assert [DeltaTable(path).version() for path in (table, table + "_quarantine")] == versions


def test_a_whole_directory_is_recovered_whole(spark: Any, left: Left, tmp_path: Path) -> None:
    template = str(tmp_path / "lake" / "{topic}")
    told = CliRunner().invoke(cli, ["recover", str(left.log_dir), "--to", template, "--pattern", "^hard", "--json"])
    report = json.loads(told.stdout)
    assert {damage["reason"] for damage in report["damaged"]} <= {UNDECIDED}
    assert told.exit_code == (1 if report["damaged"] else 0)
    assert set(rows_of(str(tmp_path / "lake" / left.topic))) >= left.committed
    assert (tmp_path / "lake_quarantine").is_dir()
    assert (tmp_path / "lake_ledger").is_dir()
    assert (report["topics"], report["partitions"]) == (1, 2)
    assert {one["log_end"] for one in report["unconfirmed"]} == {r["end"] for r in report["ranges"]}


@pytest.mark.parametrize(
    ("table", "folder"),
    [
        ("./recovered/", "./recovered"),
        ("./lake/{topic}", "./lake"),
        ("/lake/raw_{topic}", "/lake"),
        ("s3://lake/orders", "s3://lake/orders"),
        ("s3://lake/raw/{topic}", "s3://lake/raw"),
        ("file:///lake", "file:///lake"),
    ],
)
def test_quarantine_and_ledger_lie_beside_the_folder_of_the_rows(table: str, folder: str) -> None:
    job, expected = recovery_job(["/logs"], table), recovery_job(["/logs"], table, quarantine=f"{folder}_quarantine")
    assert job.quarantine == expected.quarantine
    assert job.ledger == recovery_job(["/logs"], table, ledger=f"{folder}_ledger").ledger


@pytest.mark.parametrize(
    ("table", "remedy"),
    [
        ("s3://lake/{topic}", "s3://lake/recovered/{topic}"),
        ("s3://lake", "s3://lake/recovered"),
        ("./{topic}", "./recovered/{topic}"),
        ("{topic}", "recovered/{topic}"),
        (".", "./recovered"),
        ("..", "../recovered"),
    ],
)
def test_no_quarantine_is_made_in_another_bucket_or_hidden_in_the_current_folder(table: str, remedy: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        recovery_job(["/logs"], table)
    (fault,) = refused.value.faults
    assert str(fault.remedy).startswith(f"write --to {remedy}, or give")
    recovery_job(["/logs"], remedy)


class Killed(BaseException):
    """A run ends here as if its process had."""


@pytest.mark.parametrize("step", ["before", "committed", "after"])
@pytest.mark.parametrize("of", ["quarantine", "table"])
def test_what_is_quarantined_lands_once_wherever_a_run_dies(
    spark: Any, left: Left, tmp_path: Path, of: str, step: str
) -> None:
    harm(left)
    job = recovery_job([str(left.log_dir)], str(tmp_path / "out"))
    place = f"land:{job.quarantine if of == 'quarantine' else tmp_path / 'out'}:{step}"

    def kill(reached: str) -> None:
        if reached == place:
            raise Killed

    with pytest.raises(Killed):
        run_ingest(job, observe=kill)
    report = recover(job, take_over=True)
    assert report.run.status == "done"
    rows = rows_of(str(tmp_path / "out"))
    assert len(rows) == len(set(rows)) == report.run.counts["records"]
    assert job.quarantine is not None
    kept = kept_of(job.quarantine)
    addresses = [(k["file"], k["position"], k["piece_position"], k["first_offset"]) for k in kept]
    assert len(addresses) == len(set(addresses)) > 0
    assert len({k["_kseg_run"] for k in kept}) == 1
    quarantined = report.run.counts["quarantined"]
    assert quarantined == sum(d.last_offset - d.first_offset for d in report.damaged)
    assert report.run.quarantine is not None
    assert report.run.quarantine.rows == len(kept)


def test_a_broker_s_damaged_batch_is_passed_over(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """A broker sends what stands in its files, whatever the checksum says."""
    topic = kafka.topic(1, prefix="rotten")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 0})
    for number in range(9):
        producer.produce(topic, b"value %d" % number * 20, partition=0)
        if number % 3 == 2:
            assert producer.flush(60) == 0
    (segment,) = (kafka.log_dirs[0] / f"{topic}-0").glob("*.log")
    data = segment.read_bytes()
    at = data.index(b"value 4" * 3)
    flip(segment, at)
    job = broker_job(kafka.bootstrap_servers, topic, tmp_path)
    report = run_ingest(job)
    offsets = sorted(row[1] for row in rows_of(str(tmp_path / "out")))
    assert 4 not in offsets
    assert report.counts["records"] + report.counts["quarantined"] == 9
    kept = kept_of(str(tmp_path / "quarantine"))
    assert sorted([*offsets, *(n for k in kept for n in range(k["first_offset"], k["last_offset"]))]) == list(range(9))
    (row,) = kept
    assert (row["topic"], row["file"], row["reason"]) == (topic, None, "the checksum does not match the bytes")
    assert row["bytes"] in segment.read_bytes()
    assert status(job).runs[0].quarantined == report.counts["quarantined"]
    assert {Path(table.path).name for table in status(job).tables} == {"out", "quarantine"}
    verified = verify(job)
    assert verified.ok
    assert any("could not be read when they landed" in note for note in verified.notes)
    assert run_ingest(job).status == "nothing-to-do"


def test_a_replacement_leaves_rows_where_it_has_nothing_for_them(spark: Any, kafka: Any, tmp_path: Path) -> None:
    """What was landed while the log was whole is not taken away because it is not whole any more."""
    topic = kafka.topic(1, prefix="rotten")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(3):
        producer.produce(topic, b"value %d" % number * 20, partition=0)
        assert producer.flush(60) == 0
    job = broker_job(kafka.bootstrap_servers, topic, tmp_path)
    run_ingest(job)
    landed = rows_of(str(tmp_path / "out"))
    (segment,) = (kafka.log_dirs[0] / f"{topic}-0").glob("*.log")
    flip(segment, segment.read_bytes().index(b"value 1"))
    request = BackfillRequest.parse([f"{topic}:0:0"], [f"{topic}:0:3"], mode="replace")
    report = run_backfill(job, request)
    assert (report.counts["records"], report.counts["quarantined"]) == (2, 1)
    assert sorted(rows_of(str(tmp_path / "out"))) == sorted(landed)
    (kept,) = kept_of(str(tmp_path / "quarantine"))
    assert (kept["first_offset"], kept["last_offset"]) == (1, 2)


def test_a_run_that_met_damage_goes_on_when_it_may_quarantine(spark: Any, kafka: Any, tmp_path: Path) -> None:
    topic = kafka.topic(1, prefix="rotten")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic, b"whole and well" * 9, partition=0)
    assert producer.flush(60) == 0
    (segment,) = (kafka.log_dirs[0] / f"{topic}-0").glob("*.log")
    flip(segment, 100)
    careful = broker_job(kafka.bootstrap_servers, topic, tmp_path, on_corruption="fail")
    with pytest.raises(Exception, match="checksum does not match"):
        run_ingest(careful)
    planned = status(careful).runs[0].run_id
    report = run_ingest(broker_job(kafka.bootstrap_servers, topic, tmp_path))
    assert (report.run_id, report.counts["records"], report.counts["quarantined"]) == (planned, 0, 1)


def broker_job(servers: str, topic: str, folder: Path, on_corruption: str = "quarantine") -> Job:
    sink: dict[str, Any] = {"path": str(folder / "out")}
    if on_corruption == "quarantine":
        sink["quarantine"] = {"path": str(folder / "quarantine")}
    return job_from_document(
        {
            "version": 1,
            "name": "rotten",
            "kafka": {"bootstrap.servers": servers},
            "source": {"topics": [topic], "on_corruption": on_corruption},
            "sink": sink,
            "ledger": str(folder / "ledger"),
            "spark": {"master": "local[2]"},
        }
    )
