"""Whether this process has a Spark already, and where small reads run."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kseg.etl.config.sections import ArrowSection, PythonSection, SqlSection, TargetName
from kseg.etl.executors.engine import Engine, _spark_here
from kseg.etl.executors.local import server_process
from kseg.etl.executors.local.pool import LocalExecutor


@pytest.mark.parametrize(
    ("attributes", "here"),
    [
        (None, "none"),
        ({}, "none"),  # half imported, or pyspark-client
        ({"SparkContext": SimpleNamespace()}, "none"),
        ({"SparkContext": SimpleNamespace(_active_spark_context=None)}, "none"),
        ({"SparkContext": SimpleNamespace(_active_spark_context=object())}, "running"),
    ],
)
def test_a_spark_runs_where_pyspark_has_a_context(
    attributes: dict[str, object] | None, here: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.delitem(sys.modules, "pyspark", raising=False)
    if attributes is not None:
        module = ModuleType("pyspark")
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, "pyspark", module)
    assert _spark_here() == here


def test_spark_submit_has_started_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert _spark_here() == "submitted"


class Unused:
    """In place of the job's session: a small read must not open it."""

    def __init__(self, engine: str) -> None:
        run = SimpleNamespace(engine=engine, local_below=1000, task_attempts=4)
        target = TargetName("/lake/orders", None)
        sink = SimpleNamespace(widen=False, cluster_by=(), routes=None, targets={"*": target})
        self.job = SimpleNamespace(
            run=run, spark=SimpleNamespace(remote=None), transform=(), sink=sink, source=SimpleNamespace(segments=None)
        )
        self.progress = SimpleNamespace(event=lambda _: None)

    def close(self) -> None:
        pass


class Started:
    """In place of a server process."""

    def __init__(self, *, files: bool) -> None:
        self.files, self.closed = files, False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Started]:
    """The processes that were started."""
    made: list[Started] = []
    monkeypatch.setattr("kseg.etl.executors.engine._spark_here", lambda: "none")

    def start(**options: bool) -> Started:
        made.append(Started(**options))
        return made[-1]

    monkeypatch.setattr(server_process, "ServerProcess", start)
    return made


@pytest.mark.parametrize(
    ("engine", "size", "executor"),
    [
        ("spark", None, None),
        ("auto", 1, LocalExecutor),
        ("auto", 1000, None),  # which a run would read with Spark
        ("local", None, LocalExecutor),
    ],
)
def test_a_small_read_is_local_if_the_job_may_use_processes(
    engine: str, size: int | None, executor: type | None, started: list[Started]
) -> None:
    session: Any = Unused(engine)
    of_job = Engine(session)
    found = of_job.local(size=size)
    assert (None if found is None else type(found)) is executor
    if found is not None:
        assert of_job.local(size=size) is found is of_job.executor(), "reads share the processes"


@pytest.mark.parametrize(
    ("engine", "changes", "starts"),
    [
        ("local", {}, True),
        ("auto", {}, True),
        ("spark", {}, False),
        ("auto", {"offsets": 2}, False),  # of a kilobyte each, and Spark reads a kilobyte
        ("local", {"offsets": 10**9}, True),
        ("auto", {"transform": [ArrowSection(arrow="m:f")]}, True),
        ("auto", {"transform": [SqlSection(sql="SELECT * FROM __rows__")]}, False),
        ("auto", {"transform": [PythonSection(python="m:f")]}, False),
        ("auto", {"widen": True}, False),
        ("auto", {"cluster_by": ("offset",)}, False),
        ("auto", {"targets": {"*": TargetName(None, "lake.orders")}}, False),
        ("auto", {"remote": "sc://here"}, False),
    ],
)
def test_worker_processes_that_a_run_will_probably_use_start_before_it_has_chosen(
    engine: str, changes: dict[str, Any], starts: bool, started: list[Started]
) -> None:
    session: Any = Unused(engine)
    job, sink = session.job, vars(session.job.sink)
    job.run.local_below = 1001
    job.transform, job.spark.remote = changes.get("transform", ()), changes.get("remote")
    sink.update({key: value for key, value in changes.items() if key in sink})
    of_job = Engine(session)
    for _ in range(2):
        of_job.expect(changes.get("offsets", 1))
    assert len(started) == starts
    of_job.close()
    assert all(process.closed for process in started)


def test_the_executor_takes_the_process_that_was_started(started: list[Started]) -> None:
    session: Any = Unused("auto")
    of_job = Engine(session)
    of_job.expect(0)
    of_job.choose(size=0, needs_spark=None)
    executor = of_job.executor()
    assert isinstance(executor, LocalExecutor)
    of_job.expect(0)
    assert len(started) == 1, "and starts no other one"
    assert not started[0].closed
    of_job.close()
    assert started[0].closed


def test_a_process_that_the_run_does_not_use_is_ended(started: list[Started]) -> None:
    session: Any = Unused("auto")
    of_job = Engine(session)
    of_job.expect(0)
    of_job.choose(size=0, needs_spark="the table has to be written by Spark")
    assert [process.closed for process in started] == [True]


@pytest.mark.parametrize("files", [True, False])
def test_worker_processes_load_readers_of_files_only_for_a_job_that_reads_files(
    files: bool, started: list[Started]
) -> None:
    session: Any = Unused("local")
    session.job.source.segments = object() if files else None
    Engine(session).expect(1)
    Engine(session).local(size=1)
    assert [process.files for process in started] == [files, files]
