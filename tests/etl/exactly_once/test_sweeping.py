"""Files of attempts that did not land are looked for where there was such an attempt and nowhere else: a look lists
all files of a table."""

from __future__ import annotations

from typing import Any

import pytest

from kseg.etl.errors import RetriableFailure
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.run import abandon
from kseg.etl.tables.delta.table import DeltaAccess


@pytest.fixture
def topic(records: Any) -> str:
    topic: str = records.topic(1)
    records.write(topic, 0, 5)
    return topic


def test_runs_that_were_not_tried_before_list_no_table(
    topic: str, any_home: Any, records: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaned: list[str] = []

    def noted(access: Any, owner: Any, *commits: Any, **options: Any) -> Any:
        cleaned.append(owner.run_id)
        return clean_up(access, owner, *commits, **options)

    clean_up = DeltaAccess.clean_up
    monkeypatch.setattr(DeltaAccess, "clean_up", noted)
    job = any_home(topic)
    job.ingest()
    records.write(topic, 0, 5)
    job.ingest()
    assert cleaned == []
    records.write(topic, 0, 5)
    job.die("land:first:before")
    job.ingest()
    assert cleaned == [list(job.state.runs)[-1]]
    job.assert_complete(runs=3)


def test_a_first_run_that_tries_again_by_itself_leaves_no_files_of_its_first_try(topic: str, any_home: Any) -> None:
    job = any_home(topic)
    left: list[set[str]] = []

    def fail_once(step: str) -> None:
        if step.startswith("land:") and step.endswith(":before") and not left:
            left.append(job.orphans())
            raise RetriableFailure("the store is away for a moment")

    job.ingest(observe=fail_once)
    assert left[0], "the first try has written files"
    job.assert_complete(runs=1)


@pytest.mark.parametrize("suspended", ["before the lease is read", "after the lease is read"])
def test_a_suspended_abandonment_leaves_the_files_of_the_repeated_backfill(
    topic: str, any_home: Any, monkeypatch: pytest.MonkeyPatch, suspended: str
) -> None:
    """The repeated backfill has the run id of the abandoned one. Its files are written, and not committed yet, when the
    process that abandoned the first one goes on with its clean-up."""
    job = any_home(topic)
    request = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:5"]}
    job.die("land:first:after", **request)
    (run,) = (one.run_id for one in job.state.unfinished_runs())
    written: list[set[str]] = []

    def repeat() -> None:
        if not written:
            written.append(set())
            job.abandon(run, take_over=True)
            job.die("land:first:before", **request)
            written[0] |= job.orphans()

    if suspended == "before the lease is read":
        monkeypatch.setattr(abandon, "delete_leftovers", before(abandon.delete_leftovers, repeat))
        with pytest.raises(LeaseLost):
            job.abandon(run)
    else:
        monkeypatch.setattr(DeltaAccess, "clean_up", before(DeltaAccess.clean_up, repeat))
        with pytest.raises(LeaseLost):
            job.abandon(run)
    assert written[0], "the repeated backfill has written files"
    assert {one.run_id for one in job.state.unfinished_runs()} == {run}
    assert job.orphans() == written[0]
    job.backfill(**request)
    assert len(job.rows()) == 5
    assert job.orphans() == set()


def before(function: Any, happens: Any) -> Any:
    """The function, before which something happens."""

    def call(*args: Any, **options: Any) -> Any:
        happens()
        return function(*args, **options)

    return call
