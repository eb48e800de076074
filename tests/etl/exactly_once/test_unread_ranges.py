"""Transforms that do not read their source to its end: the run ends, and every offset is accounted for."""

from __future__ import annotations

import sys
from typing import Any

import pytest

pytestmark = pytest.mark.spark

STEPS = """
def head(rows):
    return rows.sparkSession.createDataFrame(rows.take(5), rows.schema)
"""


@pytest.fixture
def module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "unread_steps.py").write_text(STEPS)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("unread_steps", None)
    return "unread_steps"


@pytest.mark.parametrize(
    ("step", "landed"),
    [
        ({"sql": "SELECT * FROM __rows__ LIMIT 10"}, 10),
        ({"sql": "SELECT * FROM __rows__ WHERE 1 = 0"}, 0),
        ({"python": "unread_steps:head"}, 5),
    ],
    ids=["limit", "where-false", "take"],
)
def test_what_a_step_leaves_unread_is_counted_and_told(
    home: Any, records: Any, module: str, step: dict[str, str], landed: int
) -> None:
    topic = records.topic(2)
    for partition in (0, 1):
        records.write(topic, partition, 60)
    job = home(topic, transform=[step], run={"deadline": "60s"})
    report = job.ingest()
    assert report.status == "done"
    assert (report.rows_in, report.rows_out) == (120, landed)
    assert len(job.rows()) == landed
    assert report.counts["records"] == 120
    assert any("did not read" in note for note in report.notes), report.notes
    assert job.group_offsets() == {(topic, 0): 60, (topic, 1): 60}
    assert job.ingest().status == "nothing-to-do"
