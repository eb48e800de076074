"""Whether this process has a Spark already, and where small reads run."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kseg.etl.executors.engine import Engine, _spark_here
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
        self.job = SimpleNamespace(run=run, spark=SimpleNamespace(remote=None))
        self.progress = SimpleNamespace(event=lambda _: None)

    def close(self) -> None:
        pass


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
    engine: str, size: int | None, executor: type | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kseg.etl.executors.engine._spark_here", lambda: "none")
    monkeypatch.setattr(LocalExecutor, "start", lambda self: None)
    session: Any = Unused(engine)
    of_job = Engine(session)
    found = of_job.local(size=size)
    assert (None if found is None else type(found)) is executor
    if found is not None:
        assert of_job.local(size=size) is found is of_job.executor(), "reads share the processes"
