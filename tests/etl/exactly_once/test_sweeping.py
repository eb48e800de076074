"""Files of attempts that did not land are looked for where there was such an attempt and nowhere else: a look lists
all files of a table."""

from __future__ import annotations

from typing import Any

import pytest

from kseg.etl.errors import RetriableFailure
from kseg.etl.tables.delta.table import DeltaAccess


@pytest.fixture
def topic(records: Any) -> str:
    topic: str = records.topic(1)
    records.write(topic, 0, 5)
    return topic


def test_runs_that_were_not_tried_before_list_no_table(
    topic: str, home: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned: list[str] = []

    def noted(access: Any, run_id: str, *commits: Any, **options: Any) -> Any:
        cleaned.append(run_id)
        return clean_up(access, run_id, *commits, **options)

    clean_up = DeltaAccess.clean_up
    monkeypatch.setattr(DeltaAccess, "clean_up", noted)
    job = home(topic)
    job.ingest()
    records.write(topic, 0, 5)
    job.ingest()
    assert cleaned == []
    records.write(topic, 0, 5)
    job.die("land:first:before")
    job.ingest()
    assert cleaned == [list(job.state.runs)[-1]]
    job.assert_complete(runs=3)


def test_a_first_run_that_tries_again_by_itself_leaves_no_files_of_its_first_try(topic: str, home: Any) -> None:
    job = home(topic)
    left: list[set[str]] = []

    def fail_once(step: str) -> None:
        if step.startswith("land:") and step.endswith(":before") and not left:
            left.append(job.orphans())
            raise RetriableFailure("the store is away for a moment")

    job.ingest(observe=fail_once)
    assert left[0], "the first try has written files"
    job.assert_complete(runs=1)
