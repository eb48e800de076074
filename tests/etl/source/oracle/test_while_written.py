"""A live broker's directory, read again and again by this process while it is written, rolled, cleaned and retained.

Each read is planned from the files and read to its planned end; afterwards it is held against what librdkafka gets of
the same topic, and against what the producers' values say: none is left out that was neither compacted nor taken by
retention, and none is of a transaction that was aborted.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.source.errors import OffsetsLost
from kseg.jobs.broker.process import EmbeddedKafka
from kseg.segment_reader.log.errors import SegmentGone

pytestmark = pytest.mark.broker

SMALL = {"internal.segment.bytes": "15000", "file.delete.delay.ms": "100"}
TOPICS = {
    "growing": SMALL | {"retention.ms": "-1"},
    "compacting": SMALL | {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "retention.ms": "-1"},
    "vanishing": SMALL | {"retention.bytes": "30000"},
}
QUICK = {"log.cleaner.backoff.ms": "100", "log.initial.task.delay.ms": "100", "log.retention.check.interval.ms": "100"}


class Load:
    """Transactions, a third of them aborted, and plain records, to all topics, until it is stopped."""

    def __init__(self, servers: str, shapes: Any) -> None:
        self._servers, self._shapes = servers, shapes
        self._stop, self._begun = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.turns = 0
        self.failure: BaseException | None = None

    def __enter__(self) -> Load:
        self._thread.start()
        assert self._begun.wait(120), self.failure
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(120)
        assert self.failure is None
        assert self.turns > 1

    def _run(self) -> None:
        try:
            sender = self._shapes.producer(self._servers, "lz4", **{"transactional.id": "load"})
            sender.init_transactions(60)
            plain = self._shapes.producer(self._servers, "none")
            while not self._stop.is_set():
                sender.begin_transaction()
                for topic in TOPICS:
                    for number in range(100):
                        key = b"k%d" % (number * 7 % 60)
                        sender.produce(topic, b"%d %d " % (self.turns, number) + b"x" * 50, key, 0)
                        plain.produce(topic, b"plain %d %d" % (self.turns, number), b"p%d" % number, 0)
                plain.flush(60)
                sender.flush(60)
                if self.turns % 3 == 2:
                    sender.abort_transaction(60)
                else:
                    sender.commit_transaction(60)
                self.turns += 1
                self._begun.set()
        except BaseException as error:
            self.failure = error


@pytest.fixture(scope="module")
def live() -> Any:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    with EmbeddedKafka(light=True, config=QUICK) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers, "log_level": 0})
        new = [NewTopic(name, 1, 1, config=config) for name, config in TOPICS.items()]
        for created in admin.create_topics(new, operation_timeout=60).values():
            created.result(60)
        yield kafka


LEVELS = ("read_committed", "read_uncommitted")


def test_reads_of_a_directory_in_use_are_right(
    live: EmbeddedKafka, shapes: Any, consume: Callable[..., Any], files: Any, scale: Callable[[int, int], int]
) -> None:
    folder: Path = live.log_dirs[0]
    reads: list[tuple[str, str, list[Any]]] = []
    lost: list[str] = []
    seen: dict[str, set[str]] = {topic: set() for topic in TOPICS}
    with Load(live.bootstrap_servers, shapes) as load:
        until = time.monotonic() + 240
        while load.turns < scale(20, 300) and load.failure is None:
            assert time.monotonic() < until
            for topic, level in itertools.product(TOPICS, LEVELS):
                seen[topic] |= {path.name for path in (folder / f"{topic}-0").glob("*.log*")}
                try:
                    reads.append((topic, level, files(folder).read(topic, 0, level)))
                except (SegmentGone, OffsetsLost):
                    lost.append(topic)
    shapes.await_cleaner(folder, "compacting")
    assert "growing" not in lost
    assert len(reads) > len(lost)
    truth = {key: consume(live.bootstrap_servers, key[0], 0, key[1]) for key in itertools.product(TOPICS, LEVELS)}
    for topic, level, rows in reads:
        final = {row[0]: row for row in truth[topic, level]}
        offsets = [row[0] for row in rows]
        assert offsets == sorted(set(offsets))
        if topic == "growing":
            assert rows == truth[topic, level][: len(rows)]
        elif rows:
            assert {offset for offset in final if offsets[0] <= offset <= offsets[-1]} <= set(offsets)
        for row in rows:
            assert final.get(row[0], row) == row
            turn, _ = map(int, row[2].removeprefix(b"plain ").split()[:2])
            assert row[2].startswith(b"plain ") or level == "read_uncommitted" or turn % 3 != 2
    assert max(len(rows) for topic, _, rows in reads if topic == "growing") > 1000
    assert all(sum(name.endswith(".log") for name in names) > 2 for names in seen.values())
    first = min(name for name in seen["vanishing"] if name.endswith(".log"))
    assert not (folder / "vanishing-0" / first).exists()
    assert len(truth["compacting", "read_uncommitted"]) < len(truth["growing", "read_uncommitted"])
