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


def test_a_table_that_needs_sparks_writer_is_accounted_for_as_well(home: Any, records: Any) -> None:
    topic = records.topic()
    records.write(topic, 0, 60)
    job = home(
        topic,
        transform=[{"sql": "SELECT * FROM __rows__ LIMIT 10"}],
        sink={"cluster_by": ["topic"], "single_driver": True},
        run={"deadline": "60s"},
    )
    report = job.ingest()
    assert (report.status, report.rows_in, report.rows_out) == ("done", 60, 10)
    assert any("did not read" in note for note in report.notes), report.notes
    assert any("LIMIT" in note for note in report.notes), report.notes


def test_rows_that_a_step_uses_twice_count_once_as_records(home: Any, records: Any) -> None:
    topic = records.topic()
    records.write(topic, 0, 60)
    job = home(topic, transform=[{"sql": "SELECT * FROM __rows__ UNION ALL SELECT * FROM __rows__"}])
    report = job.ingest()
    assert (report.status, report.rows_in, report.rows_out) == ("done", 60, 120)
    assert [note for note in report.notes if "2 times" in note], report.notes
