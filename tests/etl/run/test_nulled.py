"""Each refusal of a run with too many bad records shows those that it counts, whatever other topics of the job have."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.decoding.counts import DecodingCounts
from kseg.etl.decoding.errors import TooManyDeadLetters, TooManyNulled
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.values import PlannedRange
from kseg.etl.run.account import account_for
from kseg.etl.run.nulled import check_nulled
from kseg.etl.source.logs import open_logs
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.range_result import RangeResult
from kseg.etl.tables.side_kinds import LETTERS

JOB = """
version: 1
name: j
kafka: {bootstrap.servers: "127.0.0.1:1"}
source: {topics: [dead, nulled, others]}
decode:
  dead: {value: {format: long}, on_error: dead_letter}
  nulled: {value: {format: long}, on_error: set_null, max_nulled: 3}
  others: {value: {format: long}, on_error: set_null, max_nulled: 100%}
sink: {path: t, dead_letters: {path: d, max: 3}}
ledger: l
"""
SIZE = 10


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    file = tmp_path_factory.mktemp("job") / "job.yaml"
    file.write_text(JOB)
    return load_job(str(file))


def result(index: int, topic: str) -> RangeResult:
    """A task whose records are all bad, as its worker sent it."""
    lines = tuple(f"{topic}-0 offset {n}: value" for n in range(3))
    dead = topic == "dead"
    found = RangeResult(
        *(index, topic, 0, 0, SIZE),
        data=SIZE,
        rows=SIZE,
        decoded=DecodingCounts(dead=SIZE) if dead else DecodingCounts(decoded=SIZE, nulled=SIZE),
        dead_examples=lines if dead else (),
        nulled_examples=() if dead else lines,
    )
    return RangeResult.from_json(found.to_json())


@pytest.mark.parametrize("order", list(permutations(["dead", "nulled", "others"])))
def test_the_first_records_shown_are_those_that_are_counted(job: Job, order: tuple[str, ...], tmp_path: Path) -> None:
    ranges = tuple(PlannedRange(topic, 0, 0, SIZE) for topic in order)
    plan = ev.RunPlan("r", "incremental", "incremental", "a", 1, "", "", None, {}, ranges, {}, decoding_rules=2)
    with open_logs(LogFiles((str(tmp_path),))) as logs:
        reading = account_for(plan, [result(index, topic) for index, topic in enumerate(order)], logs)
    assert list(reading.nulled_examples) == [topic for topic in order if topic != "dead"]
    with pytest.raises(TooManyNulled, match="10 records would have nulls") as nulled:
        check_nulled(job, plan, reading)
    assert nulled.value.examples == tuple(f"nulled-0 offset {n}: value" for n in range(3))
    with pytest.raises(TooManyDeadLetters) as dead:
        LETTERS.check(job, "r", reading, ())
    assert dead.value.examples == tuple(f"dead-0 offset {n}: value" for n in range(3))
