"""Kafka's own classes, in both directions: every format, codec and timestamp type, and what its log cleaner leaves."""

from __future__ import annotations

import datetime as dt
import itertools
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from control_batches import encode_control_batch
from java_programs import java_with_kafka
from kseg.jobs.broker.errors import JarsUnavailable, JavaMissing
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.encode.batches import Record, encode_batch, encode_message_set

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
ROWS = [
    Record(b"key", b"value" * 900, [("a", b"1"), ("a", None), ("ключ", b"")], 1_700_000_000_000),
    Record(None, None, [], 1_700_000_000_001),
    Record(b"", b"", [], 1_600_000_000_000),
]
OURS = [
    encode_batch(
        ROWS, base_offset=7, offset_deltas=[0, 2, 3], last_offset_delta=6, compression=codec, timestamp_type=time
    )
    for codec in CODECS
    for time in (0, 1)
]
OURS += [
    encode_message_set(
        [row._replace(headers=()) for row in ROWS], magic=magic, base_offset=7, compression=codec, timestamp_type=time
    )
    for codec in CODECS[:4]
    for magic in (0, 1)
    for time in (0, 1)
]
FIRST = [0x41, 0x80, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xED, 0xEF, 0xF0, 0xF1, 0xF4, 0xF5, 0xF8, 0xFF]
AFTER = [0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC2, 0xED, 0xF0]
NOT_UTF8 = [bytes(name) for more in range(4) for name in itertools.product(FIRST, *[AFTER] * more)]
OURS.append(encode_batch([Record(headers=[(name, b"") for name in NOT_UTF8], timestamp=7)]))
OURS.append(encode_batch(ROWS, base_offset=3, producer_id=5, producer_epoch=1, base_sequence=9, transactional=True))


@dataclass
class Sets:
    """A record set and what Java reads from it: rows (offset, millis, type, key, value, headers), control records."""

    data: bytes
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    control: int = 0


@pytest.fixture(scope="module")
def java() -> tuple[dict[str, Sets], list[Sets]]:
    """Record sets that Java wrote, by name, and ours as Java read them."""
    try:
        command = java_with_kafka("-Xmx512m")
    except (JarsUnavailable, JavaMissing) as fault:
        pytest.skip(f"no Java, or no Kafka jars: {fault}")
    program = Path(__file__).parent / "JavaRecords.java"
    stdin = "".join(data.hex() + "\n" for data in [*OURS, marker(0) + marker(1)])
    done = subprocess.run(
        [*command, str(program)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    theirs, given = dict[str, Sets](), list[Sets]()
    current = Sets(b"")
    for what, *words in (line.split(" ") for line in done.stdout.splitlines()):
        match what:
            case "set":
                current = theirs[words[0]] = Sets(bytes.fromhex(words[1]))
            case "given":
                current = Sets(bytes.fromhex(words[1]))
                given.append(current)
            case "control":
                current.control += 1
            case "row":
                current.rows.append(row(*words))
    return theirs, given


def marker(kind: int) -> bytes:
    return encode_control_batch(kind, base_offset=kind, producer_id=5, producer_epoch=1, timestamp=1000)


def content(text: str) -> bytes | None:
    return None if text == "-" else bytes.fromhex(text.removeprefix("."))


def row(offset: str, millis: str, kind: str, key: str, value: str, headers: str) -> tuple[Any, ...]:
    pairs = [pair.split("=") for pair in headers.split(",") if pair]
    return (
        int(offset),
        int(millis),
        int(kind),
        content(key),
        content(value),
        [{"key": bytes.fromhex(name).decode(), "value": content(text)} for name, text in pairs] or None,
    )


def ours(decode: Callable[..., Any], data: bytes) -> list[tuple[Any, ...]]:
    base = next(frames(data)).base_offset if next(frames(data)).magic == 2 else 0
    out = decode(data, base, null_timestamps=False, isolation_level="read_uncommitted")
    return [
        (
            r["offset"],
            (r["timestamp"] - EPOCH) // dt.timedelta(milliseconds=1),
            r["timestampType"],
            r["key"],
            r["value"],
            r["headers"],
        )
        for r in out.rows
    ]


NAMES = [
    f"{magic}-{codec}-{kind}"
    for magic in range(3)
    for codec in CODECS[: 5 if magic == 2 else 4]
    for kind in ("CreateTime", "CreateTime-compacted", "LogAppendTime")[: 3 if magic else 2]
]


@pytest.mark.rule(93, 129)
@pytest.mark.parametrize("name", NAMES)
def test_javas_bytes_decode_to_what_java_reads(java: Any, both: Callable[..., Any], name: str) -> None:
    theirs = java[0][name]
    rows = ours(both, theirs.data)
    assert rows == theirs.rows
    if not name.endswith("compacted"):
        assert [r[0] for r in rows] == [*range(100, 140), 150]


@pytest.mark.rule(122)
def test_a_batch_that_javas_cleaner_emptied_is_absent(java: Any, both: Callable[..., Any]) -> None:
    out = both(java[0]["2-lz4-CreateTime-compacted"].data, 100)
    assert out.counts.batches == 2
    assert out.gaps[-1] == (138, 151)


def test_javas_transactions(java: Any, both: Callable[..., Any]) -> None:
    out = both(java[0]["transactions"].data, 0, aborted=[(7, 0)], provenance=True)
    assert out.offsets == [4, 5, 6]
    assert (out.counts.aborted, out.counts.control) == (3, 2)
    assert [(r["producerId"], r["producerEpoch"], r["sequence"], r["leaderEpoch"]) for r in out.rows] == [
        (8, 3, 5, 9),
        (8, 3, 6, 9),
        (8, 3, 7, 9),
    ]


@pytest.mark.rule(120, 123)
def test_java_reads_our_bytes_as_we_do(java: Any, both: Callable[..., Any]) -> None:
    *sets, markers = java[1]
    assert len(sets) == len(OURS)
    for theirs in sets:
        assert theirs.rows
        assert ours(both, theirs.data) == theirs.rows
    assert markers.control == 2
