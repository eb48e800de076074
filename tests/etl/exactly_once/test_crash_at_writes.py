"""`kseg ingest` on an object store is killed at each of its writes: the store has carried it out, and the process is
gone before the answer. Whoever runs the job next leaves table, ledger and group offsets exactly as they should be. In
the full scale its JVM dies with it; else that is the tests' own, whose tasks are answered no more.

The crash matrix kills at the steps of a run, as its code names them. Here the store decides: whatever a run writes, in
whatever order, and also from its workers.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from skips import full_scale_only

pytestmark = [pytest.mark.broker, pytest.mark.spark, pytest.mark.slow]

RACED = re.compile(r"/_kseg/race-[0-9a-f]+/\d+$")
"""Keys that contenders race for when a ledger or a table is made, some hundred writes; of these the first one alone."""


@dataclass
class Writes:
    """Writes that the store has carried out. At a given one a process is killed.

    kill_at: its number, from 1; 0: none. seen: the keys. killed_at: the key of that write.
    """

    kill_at: int = 0
    seen: list[str] = field(default_factory=list)
    killed_at: str = ""
    process: Any = None
    _one: Any = field(default_factory=threading.Lock)

    def __call__(self, asked: Any) -> bool:
        with self._one:
            if self.killed_at:
                return self._gone()
            if asked.method not in ("PUT", "POST", "DELETE") or asked.status >= 300:
                return False
            if RACED.search(asked.path) and any(RACED.search(path) for path in self.seen):
                return False
            self.seen.append(asked.path)
            if len(self.seen) == self.kill_at:
                self.killed_at = asked.path
                self.process.kill()
                return True
            return False

    def _gone(self) -> bool:
        return bool(self.process.ended)


@pytest.fixture
def topic(records: Any) -> str:
    topic: str = records.topic(2)
    records.write_mixed(topic, 2, rounds=1)
    return topic


@pytest.fixture
def ingest(s3: Any, children: Any, scale: Any) -> Callable[..., Writes]:
    """ingest(job, at): the command, killed at its write of this number; what it has written."""

    def run(job: Any, at: int = 0) -> Writes:
        process = children.start(own_jvm=scale(False, True))
        writes = s3.carried_out = Writes(at, process=process)
        line = ["ingest", str(job.file), "--progress", "none"]
        process.send({"do": "kseg", "arguments": line, "environment": job.environment})
        answer = process.outcome()
        s3.carried_out = None
        if writes.killed_at:
            process.killed()
        else:
            assert answer is not None, process.tail()
            assert answer["exit"] == 0, answer
        return writes

    return run


def chosen(count: int, scale: Any) -> range:
    """All writes in the full scale; else two: one of the first half, and one of the last."""
    return scale(range(count // 3, count + 1, max(count // 2, 1)), range(1, count + 1))


def new(topic: str, in_bucket: Any, records: Any) -> Any:
    """A job that has never run, of one table."""
    job = in_bucket(topic)
    root = str(job.document["ledger"]).removesuffix("/ledger")
    return job.change(sink={"routes": None, "path": f"{root}/lake/first"})


def going_on(topic: str, in_bucket: Any, records: Any) -> Any:
    """One that has landed a part of its topic."""
    job = new(topic, in_bucket, records).change(source={"ending_offsets": {topic: {0: 10, 1: 10}}})
    job.ingest()
    return job.change(source={"ending_offsets": "latest"})


@pytest.mark.parametrize(
    ("build", "runs"),
    [
        pytest.param(new, 1, id="its first run"),
        pytest.param(going_on, 2, id="its second run", marks=full_scale_only),
    ],
)
def test_a_command_killed_at_a_write_is_taken_up(build, runs, topic, in_bucket, records, ingest, scale):
    whole = build(topic, in_bucket, records)
    count = len(ingest(whole).seen)
    whole.assert_complete(runs=runs)
    assert count > 5
    for number in chosen(count, scale):
        job = build(topic, in_bucket, records)
        writes = ingest(job, at=number)
        # A run renews its lease by the clock, so that one may make a write less than another.
        assert writes.killed_at or number >= count - 1, (number, count)
        job.ingest(take_over=True)
        # In the tests' JVM a task may write its file when its driver is gone, and the next run has looked for such.
        job.assert_complete(runs=runs, swept=scale(False, True))
        assert job.ingest().status == "nothing-to-do"
        job.assert_complete(runs=runs, swept=scale(False, True))
