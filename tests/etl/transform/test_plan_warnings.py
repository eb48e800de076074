"""Which steps may give other rows when a task runs again, or use a part of theirs: told before anything is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.run.check_transform import check_transform
from kseg.etl.transform.plan_warnings import LIMIT, RANDOM, SAMPLE, TWICE, sql_warnings
from kseg.etl.transform.sql import SqlStep

QUERIES = [
    ("SELECT * FROM __rows__", ()),
    ("SELECT *, current_timestamp() AS at FROM __rows__ WHERE topic = 'rand() LIMIT 3 TABLESAMPLE'", ()),
    ("SELECT topic, partition, offset, explode(array(1, 2)) AS e FROM __rows__", ()),
    ("SELECT * FROM __rows__ WHERE rand() < 0.5", (RANDOM,)),
    ("SELECT *, uuid() AS id FROM __rows__", (RANDOM,)),
    ("SELECT * FROM __rows__ TABLESAMPLE (10 PERCENT)", (SAMPLE,)),
    ("SELECT * FROM __rows__ LIMIT 10", (LIMIT,)),
    ("SELECT * FROM __rows__ UNION ALL SELECT * FROM __rows__", (TWICE.format(count=2),)),
    (
        "SELECT * FROM __rows__ WHERE _kseg_offset >= (SELECT max(_kseg_offset) - 5 FROM __rows__)",
        (TWICE.format(count=2),),
    ),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_the_text_of_a_step_tells_without_spark(query: str, expected: tuple[str, ...]) -> None:
    found = sql_warnings([SqlStep(query, "transform[0].sql")])
    assert found == tuple(f"transform[0].sql: {reason}" for reason in expected)


def job(tmp_path: Path, *steps: dict[str, str]) -> Any:
    return load_job(
        {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "127.0.0.1:1"},
            "source": {"topics": ["orders"]},
            "sink": {"path": str(tmp_path / "lake")},
            "ledger": str(tmp_path / "ledger"),
            "transform": list(steps),
        }
    )


@pytest.mark.spark
def test_sparks_plan_tells_the_same_and_of_python_steps_too(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for query, expected in QUERIES:
        assert check_transform(job(tmp_path, {"sql": query})) == tuple(f"transform: {text}" for text in expected), query
    (tmp_path / "warned_steps.py").write_text("def twice(rows):\n    return rows.union(rows.sample(0.5))\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = check_transform(job(tmp_path, {"python": "warned_steps:twice"}))
    assert found == (f"transform: {SAMPLE}", f"transform: {TWICE.format(count=2)}")
    assert not (tmp_path / "lake").exists()


@pytest.mark.spark
def test_a_step_that_does_not_work_is_a_fault_of_the_file(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"transform\[0\]"):
        check_transform(job(tmp_path, {"sql": "SELECT nothing FROM __rows__"}))
    with pytest.raises(ConfigurationError, match="address"):
        check_transform(job(tmp_path, {"sql": "SELECT value FROM __rows__"}))
