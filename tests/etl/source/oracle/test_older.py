"""Files that older releases wrote, in all three message formats: today's dump tool and a consumer say the same."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.jobs.broker.errors import JarsUnavailable
from kseg.segment_reader.codecs.lz4 import xxh32
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.log.damage.check import check_partition
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import LocalStorage
from releases import OtherKafka
from skips import full_scale_only

pytestmark = pytest.mark.broker

ISOLATION = ("read_committed", "read_uncommitted")
CODECS = ("none", "gzip", "snappy", "lz4")
#: Values of message.format.version, by the magic that they store.
FORMATS = {0: "0.9.0", 1: "0.10.0", 2: "2.8"}
SMALL_SEGMENTS = {"segment.bytes": "16384", "retention.ms": "-1"}
COMPACTED = SMALL_SEGMENTS | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}
_LZ4_MAGIC = 0x184D2204.to_bytes(4, "little")


def logs(folder: Path, topic: str) -> list[Path]:
    log = open_log(LocalStorage(), str(folder / f"{topic}-0"), topic, 0)
    return [Path(segment.path) for segment in log.segments]


def magics(entries: list[Any]) -> list[int]:
    return [entry["magic"] for entry in entries if entry["kind"] == "batch"]


@pytest.fixture(scope="module")
def upgrading() -> Iterator[OtherKafka]:
    """The last release that stores all three formats, with a cleaner that does not wait."""
    try:
        with OtherKafka("2.8.2", config={"log.cleaner.backoff.ms": "200", "auto.create.topics.enable": "false"}) as one:
            yield one
    except JarsUnavailable as error:
        pytest.skip(str(error))


def set_format(servers: str, topic: str, magic: int) -> None:
    """Change a topic's message format, and wait until what is written has it."""
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    change = ConfigEntry("message.format.version", FORMATS[magic], incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[change])
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(60)


def wait_for_format(shapes: Any, kafka: OtherKafka, topic: str, magic: int) -> None:
    """The broker takes a new configuration up a moment after it has taken it."""
    until = time.monotonic() + 60
    written = -1
    while written != magic:
        assert time.monotonic() < until
        shapes.plain(kafka.bootstrap_servers, topic, "none", range(1, 2), bare=True)
        written = list(frames(logs(kafka.log_dirs[0], topic)[-1].read_bytes()))[-1].magic


@pytest.mark.parametrize(
    "compacted",
    [pytest.param(False, marks=full_scale_only, id="plain"), pytest.param(True, id="compacted")],
)
def test_formats_side_by_side_in_one_log(
    upgrading: OtherKafka,
    shapes: Any,
    consume: Callable[..., Any],
    files: Any,
    same_as_java: Callable[..., Any],
    scale: Callable[[int, int], int],
    compacted: bool,
) -> None:
    servers, folder = upgrading.bootstrap_servers, upgrading.log_dirs[0]
    topic = f"upgraded-{compacted}"
    upgrading.create_topic(topic, config=(COMPACTED if compacted else SMALL_SEGMENTS) | _format(0))
    for magic in FORMATS:
        set_format(servers, topic, magic)
        wait_for_format(shapes, upgrading, topic, magic)
        for number, codec in enumerate((*CODECS, "zstd") if magic == 2 else CODECS):
            first = 1000 * magic + 200 * number
            numbers = range(first, first + scale(120, 2000))
            shapes.plain(servers, topic, codec, numbers, bare=magic < 2, keys=50 if compacted else None)
    shapes.transactions(servers, topic, topic, turns=4, count=20, keys=37)
    if compacted:
        shapes.await_cleaner(folder, topic)
    rows = {isolation: consume(servers, topic, 0, isolation) for isolation in ISOLATION}

    written = magics(same_as_java(logs(folder, topic)))
    assert set(written) == {0, 1, 2}
    assert written == sorted(written)
    assert len(logs(folder, topic)) > 2
    for isolation in ISOLATION:
        of_files = files(folder)
        assert of_files.read(topic, 0, isolation) == rows[isolation]
        assert (sum(outcome.absent for outcome in of_files.outcomes) > 0) == compacted
        pieces = files(folder).read(topic, 0, isolation, maxRecordsPerPartition="97")
        assert pieces == rows[isolation]
    # The cleaner may have removed all records of aborted transactions.
    aborted = len(rows["read_uncommitted"]) - len(rows["read_committed"])
    assert aborted >= 0 if compacted else aborted > 0
    told = check_partition(LocalStorage(), str(folder / f"{topic}-0"), topic, 0, deep=True)
    assert [str(fault) for fault in told.faults] == []


def _format(magic: int) -> dict[str, str]:
    return {"message.format.version": FORMATS[magic]}


@pytest.mark.parametrize(
    ("release", "configured", "magic"),
    [
        ("0.9.0.1", {}, 0),
        pytest.param("0.10.2.2", _format(0), 0, marks=full_scale_only),
        ("0.10.2.2", {}, 1),
        pytest.param("2.8.2", _format(0), 0, marks=full_scale_only),
        pytest.param("3.9.2", {}, 2, marks=full_scale_only),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_a_release_wrote_is_read(
    request: pytest.FixtureRequest,
    kafka_release: Callable[[str], Any],
    shapes: Any,
    consume: Callable[..., Any],
    files: Any,
    same_as_java: Callable[..., Any],
    scale: Callable[[int, int], int],
    release: str,
    configured: dict[str, str],
    magic: int,
) -> None:
    kafka = kafka_release(release)
    servers, folder = kafka.bootstrap_servers, kafka.log_dirs[0]
    segment_bytes = {"segment.bytes": "16384"} if release != "3.9.2" else {"segment.ms": "200"}
    topic = kafka.topic(config=SMALL_SEGMENTS | segment_bytes | configured)
    old = {"api.version.request": False, "broker.version.fallback": release} if release.startswith("0.9") else {}
    for number, codec in enumerate((*CODECS, "zstd") if magic == 2 else CODECS):
        numbers = range(500 * number, 500 * number + scale(150, 3000))
        shapes.plain(servers, topic, codec, numbers, bare=magic < 2, **old)
    entries = same_as_java(logs(folder, topic))
    assert set(magics(entries)) == {magic}
    codecs = Counter(entry["compressType"] for entry in entries if entry["kind"] == "batch")
    assert codecs.keys() >= set(CODECS)
    for isolation in ISOLATION:
        rows = consume(servers, topic, 0, isolation, release)
        assert files(folder).read(topic, 0, isolation) == rows
        assert len(rows) > 500
    if magic == 0:
        assert broken_lz4_frames(logs(folder, topic)) > 0


def broken_lz4_frames(paths: list[Path]) -> int:
    """LZ4 frames whose header's checksum covers the frame's magic too, as Kafka wrote them up to 0.10 (KIP-57)."""
    found = 0
    for path in paths:
        data = path.read_bytes()
        at = data.find(_LZ4_MAGIC)
        while at >= 0:
            right, wrong = (xxh32(data[start : at + 6]) >> 8 & 0xFF for start in (at + 4, at))
            found += data[at + 6] == wrong != right
            at = data.find(_LZ4_MAGIC, at + 1)
    return found
