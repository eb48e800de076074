"""A run of the local engine is a run as any other: equal rows, ledger events that differ only in what is the process's
own, and the same way out of a death at each step."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from run_steps import STEPS
from skips import IN_FULL

LOCAL = {"run": {"engine": "local"}}


@pytest.fixture(scope="module")
def topics(records: Any) -> tuple[str, str]:
    first, rest = records.topic(2), records.topic(1)
    records.write_mixed(first, 2)
    records.write_mixed(rest, 1)
    return first, rest


JOBS: dict[str, dict[str, Any]] = {
    "raw": {},
    "partitioned": {"sink": {"partition_by": ["partition"]}},
    "arrow": {"transform": [{"arrow": "pyarrow.compute:drop_null"}]},
    "duckdb": {"transform": [{"duckdb": 'SELECT * FROM __rows__ WHERE "offset" % 2 = 0'}]},
    "decoded": {
        "decode": {"value": {"format": "json", "schema": {"columns": {"n": "bigint"}}}, "on_error": "dead_letter"},
        "sink": {"dead_letters": {"path": "./lake/letters", "max": "100%"}},
    },
}


@pytest.mark.parametrize("kind", JOBS)
def test_both_engines_land_the_same(kind: str, topics: tuple[str, str], home: Any) -> None:
    jobs = [home(topics[0], **JOBS[kind]), home(topics[0], **JOBS[kind]).change(**LOCAL)]
    reports = [job.ingest() for job in jobs]
    assert [report.status for report in reports] == ["done", "done"]
    assert landed(jobs[0]) == landed(jobs[1])
    assert ledger_of(jobs[0]) == ledger_of(jobs[1])
    assert jobs[0].group_offsets() == jobs[1].group_offsets()


def test_tables_of_several_topics(topics: tuple[str, str], home: Any) -> None:
    job = home(*topics, **LOCAL)
    assert job.ingest().status == "done"
    job.assert_complete(runs=1)


@pytest.mark.parametrize("step", STEPS)
def test_a_run_that_is_killed_is_taken_up_by_the_other_engine(
    step: str, topics: tuple[str, str], home: Any, children: Any, scale: Any
) -> None:
    if step not in scale(("land:first:before", "land:rest:committed", "account:after"), STEPS):
        pytest.skip(IN_FULL)
    job = home(*topics, **LOCAL)
    children.run(job, at=step, signal="SIGKILL").killed()
    job.change(run={"engine": "spark"}).ingest(take_over=True)
    job.assert_complete(runs=1)


def test_a_run_of_spark_that_is_killed_is_taken_up_locally(topics: tuple[str, str], home: Any, children: Any) -> None:
    job = home(*topics)
    children.run(job, at="land:rest:before", signal="SIGKILL").killed()
    job.change(**LOCAL).ingest(take_over=True)
    job.assert_complete(runs=1)


def landed(job: Any) -> dict[str, list[str]]:
    """All tables' rows but the columns that name the run."""
    found = {}
    for name in job.tables:
        table = job.table(name).to_pyarrow_table()
        own = [column for column in ("_kseg_run", "run_id", "failed_at") if column in table.column_names]
        found[name] = sorted(map(str, table.drop_columns(own).to_pylist()))
    return found


_OWN = re.compile(
    r"owner|host|process|time|millis|seconds|at$|^id$|run_id|ledger|sequence|signature|files|bytes|version|cost|config"
    r"|app_id|^name$|^job$|attempt|token|group$|path|^run$|metadata|lease|checked|^table"
)


def ledger_of(job: Any) -> list[Any]:
    """The state of its runs without what is each process's and each job's own."""
    return [_plain(run) for run in job.state.runs.values()]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        return {f.name: _plain(getattr(value, f.name)) for f in fields if not _OWN.search(f.name)}
    if isinstance(value, dict):
        return [_plain(part) for part in value.values()]
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    return re.sub(r"home-\d+|job-[0-9a-f]{8}", "*", str(value))
