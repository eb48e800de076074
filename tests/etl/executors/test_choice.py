"""Which executor a run uses."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.executors.choice import choose

BELOW = 64_000_000


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Job]:
    def load(**sections: Any) -> Job:
        import json

        document = {
            "version": 1,
            "name": "job",
            "kafka": {"bootstrap.servers": "localhost:9092"},
            "source": {"topics": ["t"]},
            "sink": {"path": "./lake"},
            "ledger": "./ledger",
        }
        file = tmp_path / "job.yaml"
        file.write_text(json.dumps(document | sections))
        return load_job(file)

    return load


REMOTE = {"spark": {"remote": "sc://localhost:15002"}}


@pytest.mark.parametrize(
    ("engine", "sections", "state", "executor", "why"),
    [
        (None, {}, {}, "spark", "run.engine is spark"),
        ("spark", {}, {"size": 1}, "spark", "run.engine is spark"),
        ("auto", {}, {"size": BELOW - 1}, "local", "less to read than run.local_below (64 MB)"),
        ("auto", {}, {"size": BELOW}, "spark", "about 64 MB to read"),
        ("auto", {}, {"size": None}, "local", "less to read"),
        ("auto", {}, {"size": 1, "needs_spark": "a step"}, "spark", "a step"),
        ("auto", {}, {"size": 1, "spark": "running"}, "spark", "a Spark session already"),
        ("auto", REMOTE, {"size": 1}, "connect", "spark.remote"),
        ("local", {}, {"size": 10 * BELOW}, "local", "run.engine is local"),
        ("local", {}, {"spark": "running"}, "local", "run.engine is local"),
        ("local", {}, {"spark": "submitted"}, "spark", "spark-submit"),
        ("auto", {}, {"size": 1, "spark": "submitted"}, "spark", "spark-submit"),
        ("spark", REMOTE, {}, "connect", "spark.remote"),
    ],
)
def test_the_executor_follows_from_settings_and_plan(
    job: Callable[..., Job],
    engine: str | None,
    sections: dict[str, Any],
    state: dict[str, Any],
    executor: str,
    why: str,
) -> None:
    given = job(**sections, **({"run": {"engine": engine}} if engine else {}))
    choice = choose(given, **({"size": None, "needs_spark": None, "spark": "none"} | state))
    assert choice.executor == executor
    assert why in choice.why


@pytest.mark.parametrize(
    ("remote", "needs", "reason"),
    [
        ("sc://localhost:15002", None, "spark.remote"),
        (None, "the table t has to be written by Spark", "the table t"),
    ],
)
def test_local_is_rejected_where_only_the_run_knows_that_spark_is_needed(
    job: Callable[..., Job], remote: str | None, needs: str | None, reason: str
) -> None:
    given = job(run={"engine": "local"})
    if remote is not None:  # as --remote does
        given = given.on_remote(remote)
    with pytest.raises(ConfigurationError, match=reason) as caught:
        choose(given, size=1, needs_spark=needs, spark="none")
    assert "engine: auto" in str(caught.value.faults[0].remedy)
