"""The crash matrix for what a run may be made of: steps in SQL and Python, tables that Spark writes or that are
partitioned, many tables, an object store. The process is killed before and after each step; who comes next leaves all
as it should be.

S3Proxy, which serves the bucket here, checks `If-None-Match` and then writes: of two conditional PUTs at once both may
succeed. A store that does so loses commits of a ledger, so `tests/harness/s3.py` lets one of them pass after the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from run_steps import STEPS, steps_of
from skips import IN_FULL

STEP_MODULE = """
def same(rows):
    return rows.where("offset >= 0")
"""

Build = Callable[..., Any]

#: Variants whose ledger is another one, has other entries, or whose tables are not committed by the driver's delta-rs.
OTHERWISE = ("spark writer", "object store", "many tables")


@pytest.fixture(scope="module")
def topics(records: Any) -> tuple[str, str]:
    first, rest = records.topic(2), records.topic(1)
    records.write_mixed(first, 2, rounds=1)
    records.write_mixed(rest, 1, rounds=1)
    return first, rest


MANY = 20  # more than one commit to the ledger is made for


@pytest.fixture(scope="module")
def many_topics(records: Any) -> list[str]:
    topics = [records.topic(1) for _ in range(MANY)]
    for topic in topics:
        records.write(topic, 0, 2)
    return topics


def variant(name: str, home: Build, topics: tuple[str, str], tmp_path: Path) -> Any:
    routes = {topics[0]: {"path": "./lake/first"}, "*": {"path": "./lake/rest"}}
    match name:
        case "sql step":
            return home(*topics, transform=[{"sql": "SELECT * FROM __rows__ WHERE partition >= 0"}])
        case "python step":
            (tmp_path / "steps_of_the_matrix.py").write_text(STEP_MODULE)
            return home(*topics, transform=[{"python": "steps_of_the_matrix:same"}])
        case "spark writer":
            return home(*topics, sink={"routes": routes, "cluster_by": ["offset"], "single_driver": True})
        case "partitioned":
            return home(*topics, sink={"routes": routes, "partition_by": ["partition"]})
    raise AssertionError(name)


def few(name: str, steps: tuple[str, ...], scale: Any) -> tuple[str, ...]:
    """All steps in the full scale; else one of landing, the same in each run, and one of the others where a variant
    changes what a run does there: the others' ledgers and group offsets are those of `test_crash_matrix.py`."""
    choice = random.Random(name)
    landing = [step for step in steps if step.startswith("land:")]
    others = [step for step in steps[3:-1] if step not in landing]
    chosen = choice.choice(landing), choice.choice(others)
    return scale(chosen if name in OTHERWISE else chosen[:1], steps)


def is_taken_up(job: Any, step: str, children: Any, *, swept: bool = True) -> None:
    children.run(job, at=step, signal="SIGKILL").killed()
    report = job.ingest(take_over=True)
    assert report.status == ("nothing-to-do" if step == "finish:after" else "done")
    job.assert_complete(runs=1, swept=swept)
    assert job.ingest().status == "nothing-to-do"
    job.assert_complete(runs=1, swept=swept)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("name", ["sql step", "python step", "spark writer", "partitioned"])
def test_a_killed_run_is_taken_up(name, step, topics, home, children, scale, tmp_path, monkeypatch):
    if step not in few(name, STEPS, scale):
        pytest.skip(IN_FULL)
    monkeypatch.syspath_prepend(tmp_path)
    job = variant(name, home, topics, tmp_path)
    job.python_path = str(tmp_path)
    # Where Spark SQL runs the tasks or writes the table, files of tasks that outlived the driver may be left.
    is_taken_up(job, step, children, swept=name == "partitioned")


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_run_in_an_object_store_is_taken_up(step, topics, in_bucket, children, scale):
    if step not in few("object store", STEPS, scale):
        pytest.skip(IN_FULL)
    is_taken_up(in_bucket(*topics), step, children)


def test_a_killed_run_into_many_tables_is_taken_up(many_topics, home, children, scale):
    """Of several tables together the ledger notes the commits: what it does not know of is found in the tables."""
    tables = sorted(many_topics)
    chosen = few("many tables", steps_of(*(tables[at] for at in (0, 1, MANY // 2, MANY - 1))), scale)
    for step in chosen:
        job = home(*many_topics, sink={"routes": None, "path": "./lake/{topic}"})
        is_taken_up(job, step, children)
