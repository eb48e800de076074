"""What the oracles share: a topic's rows as an independent consumer gets them and as files give them, and the lines
that Kafka's own dump tool prints, held against those that our dump leads to."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, Literal

import pytest

from java_programs import java_with_kafka
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.reader import RangeReader
from kseg.etl.spark_format.options import ReadOptions
from kseg.etl.spark_format.planning import plan_tasks
from kseg.segment_reader.decode.batch import FrameFault, frames
from kseg.segment_reader.log.files.dump import Entry, Findings, dump
from kseg.segment_reader.log.files.storage import LocalStorage

Isolation = Literal["read_committed", "read_uncommitted"]
#: offset, key, value, headers, timestamp type (-1: no timestamp), timestamp in ms.
Row = tuple[int, bytes | None, bytes | None, Any, int, int]

ISOLATION: Final[tuple[Isolation, ...]] = ("read_committed", "read_uncommitted")
_QUIET: Final = {"log_level": 0}


@pytest.fixture(scope="session")
def consume() -> Callable[..., list[Row]]:
    """consume(servers, topic, partition, isolation, release): what librdkafka reads up to the partition's end."""

    def run(servers: str, topic: str, partition: int = 0, isolation: str = "read_committed", release: str = "") -> Any:
        from confluent_kafka import Consumer, KafkaError, TopicPartition

        old = {"api.version.request": False, "broker.version.fallback": release} if release.startswith("0.9") else {}
        config = {
            "bootstrap.servers": servers,
            "group.id": "oracle",
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
        consumer = Consumer(config | old | _QUIET)
        rows: list[Row] = []
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            until = time.monotonic() + 120
            while time.monotonic() < until:
                for message in consumer.consume(2000, timeout=0.5):
                    if message.error() is None:
                        rows.append(_consumed(message))
                    elif message.error().code() == KafkaError._PARTITION_EOF:
                        return rows
                    else:
                        raise AssertionError(message.error())
        finally:
            consumer.close()
        raise TimeoutError(topic)

    return run


def _consumed(message: Any) -> Row:
    kind, millis = message.timestamp()
    headers = [(name, value) for name, value in message.headers() or ()]
    timed = kind > 0
    return message.offset(), message.key(), message.value(), headers, kind - 1, millis if timed else -1


class Files:
    """Log directories, read as a worker reads them."""

    def __init__(self, *log_dirs: Path) -> None:
        self.log_dirs = log_dirs

    def read(self, topic: str, partition: int = 0, isolation: str = "read_committed", **options: str) -> list[Row]:
        """All rows of a partition; what the tasks told is in `outcomes`."""
        asked = {"path": ",".join(map(str, self.log_dirs)), "assign": f'{{"{topic}":[{partition}]}}'}
        parsed = ReadOptions.parse(asked | {"kafka.isolation.level": isolation} | options)
        decode = DecodeOptions(isolation_level=parsed.isolation_level, headers=True)
        rows: list[Row] = []
        self.outcomes: list[RangeResult] = []
        for task in sorted(plan_tasks(parsed), key=lambda task: task.start):
            reader = RangeReader(task, parsed.origin, decode)
            for batch in reader:
                rows += map(_row, batch.to_pylist())
            told = reader.result
            assert told.data + told.control + told.aborted + told.absent == told.end - told.start
            self.outcomes.append(told)
        return rows


def _row(values: dict[str, Any]) -> Row:
    headers = [(header["key"], header["value"]) for header in values["headers"] or ()]
    time_ = values["timestamp"]
    millis = -1 if time_ is None else round(time_.timestamp() * 1000)
    return values["offset"], values["key"], values["value"], headers, values["timestampType"], millis


@pytest.fixture(scope="session")
def files() -> type[Files]:
    """Files(log_dir, …).read(topic, partition, isolation) -> rows."""
    return Files


@pytest.fixture(scope="session")
def same_as_java() -> Callable[..., list[Entry]]:
    """Asserts that Kafka's own dump tool prints of .log files what our dump says, line by line, records too; gives
    our entries. That tool trips over the zeros of a preallocated file, and gets it without them. together: files that
    stay as they are, the same in every call; one start of the tool prints them all."""
    known: dict[Path, list[str]] = {}

    def check(paths: Sequence[Path], together: Sequence[Path] = ()) -> list[Entry]:
        shown = {path: without_zeros(path) for path in paths}
        if not (together and known.keys() >= set(shown.values())):
            known.update(java_dump(list(map(without_zeros, together or paths))))
        printed = {path: known[other] for path, other in shown.items()}
        every: list[Entry] = []
        for path in paths:
            findings = Findings()
            entries = list(dump(LocalStorage(), str(path), findings, deep=True))
            assert findings.faults == [], path
            assert list(as_java(entries)) == printed[path], path
            every += entries
        return every

    return check


def without_zeros(path: Path) -> Path:
    data = path.read_bytes()
    end = 0
    with suppress(FrameFault):
        for frame in frames(data):
            end = frame.position + frame.size
    if end == len(data):
        return path
    assert not any(data[end:]), path
    copy = path.with_name(f"{path.stem}-cut") / path.name
    copy.parent.mkdir(exist_ok=True)
    copy.write_bytes(data[:end])
    return copy


def java_dump(paths: Sequence[Path]) -> dict[Path, list[str]]:
    """The lines about batches and records, by file."""
    command = java_with_kafka("-Xmx256m", "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8")
    command += ["org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log"]
    command += ["--files", ",".join(map(str, paths))]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300, check=True)
    found: dict[Path, list[str]] = {path: [] for path in paths}
    at: list[str] = []
    for line in done.stdout.split("\n"):
        if line.startswith("Dumping "):
            at = found[Path(line.removeprefix("Dumping "))]
        elif line.startswith(("baseOffset: ", "offset: ", "| ")):
            at.append(line)
        else:
            assert re.fullmatch(r"(Log starting offset|Starting offset): \d+|", line), line
    return found


def as_java(entries: Sequence[Entry]) -> Any:
    """The lines that Kafka's tool prints for such entries."""
    batch: Entry = {}
    for entry in entries:
        if entry["kind"] == "batch":
            batch = entry
            yield _batch_line(entry)
        else:
            yield _record_line(entry, batch)


def _time(entry: Entry) -> str:
    (name,) = entry.keys() & {"CreateTime", "LogAppendTime", "NoTimestampType"}
    return f"{name}: {entry[name]}"


def _batch_line(entry: Entry) -> str:
    said = {name: str(value).lower() if isinstance(value, bool) else value for name, value in entry.items()}
    if entry["magic"] == 2:
        names = ("baseOffset", "lastOffset", "count", "baseSequence", "lastSequence", "producerId", "producerEpoch")
        parts = [f"{name}: {said[name]}" for name in (*names, "partitionLeaderEpoch", "isTransactional", "isControl")]
        horizon = entry["deleteHorizonMs"]
        parts.append(f"deleteHorizonMs: {'OptionalLong.empty' if horizon is None else f'OptionalLong[{horizon}]'}")
    else:
        parts = [f"offset: {said['lastOffset']}"]
    parts += [f"position: {said['position']}", _time(entry), f"size: {said['size']}", f"magic: {said['magic']}"]
    return " ".join([*parts, f"compresscodec: {said['compressType']} crc: {said['crc']} isvalid: {said['isValid']}"])


def _record_line(entry: Entry, batch: Entry) -> str:
    parts = [f"| offset: {entry['offset']} {_time(entry)} keySize: {entry['keySize']} valueSize: {entry['valueSize']}"]
    if batch["magic"] == 2:
        keys = ",".join(name for name, _ in entry["headers"])
        parts.append(f"sequence: {entry['sequence']} headerKeys: [{keys}]")
    else:
        parts.append(f"isValid: {str(entry['isValid']).lower()} crc: {entry['crc']}")
    if entry["control"] is not None:
        parts.append(f"endTxnMarker: {entry['control']} coordinatorEpoch: {entry['coordinatorEpoch']}")
    else:
        for name, shown in (("key", "key"), ("value", "payload")):
            if entry[name] is not None:
                parts.append(f"{shown}: {entry[name].decode()}")
    return " ".join(parts)


@pytest.fixture(scope="session")
def shapes(await_markers: Callable[[str, str], None]) -> SimpleNamespace:
    """Writers of a topic's records by librdkafka."""

    def decided(servers: str, topic: str, name: str, **how: Any) -> list[Any]:
        senders = transactions(servers, topic, name, **how)
        await_markers(servers, topic)
        return senders

    return SimpleNamespace(producer=producer, plain=plain, transactions=decided, await_cleaner=await_cleaner)


def producer(servers: str, codec: str = "none", **config: Any) -> Any:
    from confluent_kafka import Producer

    common = {"bootstrap.servers": servers, "compression.type": codec, "linger.ms": 20, "batch.num.messages": 50}
    return Producer(common | _QUIET | config)


def message(number: int) -> dict[str, Any]:
    """Keys, values and headers with all that may be odd about them; no line ends, for the dump tool's sake."""
    key = None if number % 7 == 3 else b"" if number % 31 == 5 else f"schlüssel-{number % 97}"
    value = None if number % 11 == 4 else b"" if number % 13 == 6 else b"value %d " % number + b"xyz" * (number % 50)
    headers = {0: [("trace", b"1"), ("trace", None), ("", b"")], 1: [("näme", b"\xff\x00")]}.get(number % 5, [])
    return {"key": key, "value": value, "headers": headers, "timestamp": 1_767_225_600_000 + number * 7919 % 90_000}


def plain(
    servers: str,
    topic: str,
    codec: str,
    numbers: range,
    *,
    bare: bool = False,
    keys: int | None = None,
    **config: Any,
) -> None:
    """Records by number to partition 0; `bare` ones have no headers, for message formats that have none.

    keys: that many keys, the first ones those of the smallest numbers; a compacted topic takes no record without one.
    """
    sender = producer(servers, codec, **config)
    for number in numbers:
        made = message(number)
        if bare:
            del made["headers"]
        if keys is not None:
            made["key"] = b"k%d" % (numbers.start + number * 7 % keys)
        sender.produce(topic, partition=0, on_delivery=delivered, **made)
    assert sender.flush(120) == 0


def delivered(error: Any, message: Any) -> None:
    assert error is None, error


def transactions(servers: str, topic: str, name: str, *, turns: int, count: int, keys: int | None = None) -> list[Any]:
    """Four producers' transactions, their batches interleaved, a third of them aborted. Gives the producers: what they
    leave open stays open for as long as brokers allow."""
    senders = [
        producer(servers, codec, **{"transactional.id": f"{name}-{number}", "transaction.timeout.ms": 900_000})
        for number, codec in enumerate(("none", "lz4", "zstd", "gzip"))
    ]
    for sender in senders:
        sender.init_transactions(60)
    for turn in range(turns):
        for sender in senders:
            sender.begin_transaction()
        for _ in range(2):
            for place, sender in enumerate(senders):
                for number in range(count):
                    made = message(turn * 1000 + place * 100 + number)
                    if keys is not None:
                        made["key"] = b"k%d" % ((number * 7 + place + turn) % keys)
                    sender.produce(topic, partition=0, **made)
                sender.flush(60)
        for place, sender in enumerate(senders):
            if (turn + place) % 3 == 1:
                sender.abort_transaction(60)
            else:
                sender.commit_transaction(60)
    return senders


def await_cleaner(log_dir: Path, topic: str) -> None:
    """Wait until the cleaner has been over all but the last segment of partition 0."""
    checkpoint = log_dir / "cleaner-offset-checkpoint"
    until = time.monotonic() + 240
    while True:
        active = max(int(path.stem) for path in (log_dir / f"{topic}-0").glob("*.log"))
        lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
        cleaned = next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), -1)
        if cleaned >= active:
            return
        assert time.monotonic() < until, f"{topic} was cleaned up to {cleaned}, not {active}"
        time.sleep(0.1)
