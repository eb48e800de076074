"""What a file says, against Kafka's own dump tool on the same files."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from java_programs import java_with_kafka
from kseg.jobs.demo.hard_topic import HardTopic
from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.files.dump import Entry, Findings, dump
from kseg.segment_reader.log.files.storage import LocalStorage

STORAGE = LocalStorage()
JAVA_NAMES = {"compresscodec": "compressType", "isvalid": "isValid"}
JAVA_ONLY = {"lastSequence", "deleteHorizonMs"}


@pytest.fixture(scope="module")
def folder(kafka: Any) -> Iterator[Path]:
    """A partition with all codecs, transactions, and more than one segment."""
    with HardTopic(kafka.bootstrap_servers, "hard-dump", 1, scale=0.05) as hard:
        hard.create()
        hard.write_round()
        hard.write_round()
        yield kafka.log_dirs[0] / "hard-dump-0"


@pytest.fixture(scope="module")
def java_dump() -> Callable[..., list[str]]:
    def run(*files: Path) -> list[str]:
        command = [*java_with_kafka("-Xmx256m")]
        command += ["org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--files", ",".join(map(str, files))]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return done.stdout.splitlines()

    return run


def entries(path: Path, *, deep: bool = False, findings: Findings | None = None) -> list[Entry]:
    told = Findings() if findings is None else findings
    found = list(dump(STORAGE, str(path), told, deep=deep))
    if findings is None:
        assert told.faults == []
    return found


def said(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@pytest.mark.rule(263)
def test_a_log_says_what_kafka_s_tool_says(folder: Path, java_dump: Callable[..., list[str]]) -> None:
    files = sorted(folder.glob("*.log"))
    assert len(files) > 1
    lines = [line for line in java_dump(*files) if line.startswith(("baseOffset", "|"))]
    ours = [entry for path in files for entry in entries(path, deep=True)]
    assert len(ours) == len(lines)
    kinds = set()
    for line, entry in zip(lines, ours, strict=True):
        told = dict(re.findall(r"(\w+): (\[.*?\]|\S+)", line))
        if entry["kind"] == "batch":
            assert line.startswith("baseOffset")
            expected = {JAVA_NAMES.get(name, name): value for name, value in told.items() if name not in JAVA_ONLY}
            assert {name: said(value) for name, value in entry.items() if name in expected} == expected, line
        else:
            names = ("offset", "CreateTime", "keySize", "valueSize", "sequence")
            assert [said(entry[name]) for name in names] == [told[name] for name in names], line
            assert told["headerKeys"] == "[" + ",".join(name for name, _ in entry["headers"]) + "]"
            assert entry["control"] == told.get("endTxnMarker"), line
            kinds.add(entry["control"])
    assert kinds == {None, "COMMIT", "ABORT"}


def test_indexes_and_snapshots_say_what_kafka_s_tool_says(folder: Path, java_dump: Callable[..., list[str]]) -> None:
    rolled = sorted(folder.glob("*.log"))[0]
    index, times = rolled.with_suffix(".index"), rolled.with_suffix(".timeindex")
    aborted = next(path for path in sorted(folder.glob("*.txnindex")) if path.stat().st_size)
    snapshot = sorted(folder.glob("*.snapshot"))[-1]
    patterns = {
        index: r"offset: (?P<offset>\d+) position: (?P<position>\d+)",
        times: r"timestamp: (?P<timestamp>\d+) offset: (?P<offset>\d+)",
        aborted: r"version: 0 producerId: (?P<producerId>\d+) firstOffset: (?P<firstOffset>\d+) "
        r"lastOffset: (?P<lastOffset>\d+) lastStableOffset: (?P<lastStableOffset>\d+)",
        snapshot: r"producerId: (?P<producerId>\d+) producerEpoch: (?P<producerEpoch>\d+) "
        r"coordinatorEpoch: (?P<coordinatorEpoch>-?\d+) .*",
    }
    for path, pattern in patterns.items():
        told = [found.groupdict() for line in java_dump(path) if (found := re.fullmatch(pattern, line))]
        found = entries(path)
        assert told, path
        assert [{name: str(entry[name]) for name in told[0]} for entry in found] == told


def test_small_files_are_said(folder: Path) -> None:
    assert entries(folder / "leader-epoch-checkpoint") == [{"kind": "leader epoch", "epoch": 0, "startOffset": 0}]
    (identity,) = entries(folder / "partition.metadata")
    assert re.fullmatch(r"[0-9a-f-]{36}", identity["topicId"])
    (properties,) = entries(folder.parent / "meta.properties")
    assert properties["node.id"] == "1"


def test_faults_are_collected_and_the_dump_goes_on(tmp_path: Path) -> None:
    first, second, third = (encode_batch([Record(value=b"v")], base_offset=offset) for offset in (5, 6, 2))
    damaged = bytearray(second)
    damaged[-1] ^= 1
    path = tmp_path / f"{5:020d}.log"
    path.write_bytes(first + bytes(damaged) + third + first[:20])
    findings = Findings()
    found = entries(path, deep=True, findings=findings)
    assert [(entry["kind"], entry.get("isValid")) for entry in found] == [
        ("batch", True),
        ("record", None),
        ("batch", False),
        ("batch", True),
        ("record", None),
    ]
    size = len(first)
    assert [fault.position for fault in findings.faults] == [size, 2 * size, 3 * size]
    reasons = ["checksum does not match", "offset 2 is below the one before, 6", "the last batch is cut off: 20 bytes"]
    assert all(reason in str(fault) for reason, fault in zip(reasons, findings.faults, strict=True))


def test_an_index_that_disagrees_with_its_log_is_told(folder: Path, tmp_path: Path) -> None:
    log = sorted(folder.glob("*.log"))[0]
    for ending, step, at in (("index", 8, 7), ("timeindex", 12, 7)):
        data = bytearray(log.with_suffix(f".{ending}").read_bytes())
        data[step * 2 + at] ^= 1
        (tmp_path / log.name).write_bytes(log.read_bytes())
        changed = tmp_path / log.with_suffix(f".{ending}").name
        changed.write_bytes(data)
        findings = Findings()
        entries(changed, findings=findings)
        assert findings.faults, ending


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("x")
    with pytest.raises(ValueError, match="not a file of a log directory"):
        list(dump(STORAGE, str(tmp_path / "note.txt"), Findings()))
