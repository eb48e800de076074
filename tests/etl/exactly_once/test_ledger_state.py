"""What a run does when its ledger is gone, or an older one stands in its place: rows must not land again, and none may
be passed over."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from kseg.etl.errors import Refused


def lose_ledger(job: Any) -> None:
    shutil.rmtree(job.folder / "ledger")


def copy_ledger(job: Any) -> None:
    shutil.copytree(job.folder / "ledger", job.folder / "copy")


def restore_copy(job: Any) -> None:
    lose_ledger(job)
    shutil.copytree(job.folder / "copy", job.folder / "ledger")


def refused(job: Any, **options: Any) -> str:
    rows = job.rows()
    with pytest.raises(Refused) as caught:
        job.ingest(**options)
    assert job.rows() == rows
    return caught.value.code


def test_a_lost_ledger_is_refused_and_then_begun_anew_where_the_group_stands(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    lose_ledger(job)
    records.write(topic, 0, 5)
    assert refused(job) == "ledger-lost"
    assert refused(job) == "ledger-lost"
    job.ingest(accept_group_offsets=True)
    assert job.rows() == records.rows(topic)
    assert job.group_offsets() == records.ends(topic)
    records.write(topic, 1, 5)
    job.ingest()
    assert job.rows() == records.rows(topic)


def test_a_lost_ledger_is_noticed_although_no_offsets_were_ever_committed(topic, any_home):
    """The table alone knows, by the app transaction of its rows."""
    died = any_home(topic)
    died.die("commit:before")
    lose_ledger(died)
    assert refused(died) == "ledger-lost"
    without_group = any_home(topic, group=None)
    without_group.ingest()
    lose_ledger(without_group)
    assert refused(without_group) == "ledger-lost"


def test_two_jobs_may_land_in_one_table(topic, any_home, records):
    """Each with a ledger of its own: the other's app transactions are no sign that one's own ledger was lost."""
    other = records.topic(1)
    records.write(other, 0, 10)
    job = any_home(topic)
    job.ingest()
    second = any_home(other, sink={"path": str(job.folder / "lake" / "first")})
    second.ingest()
    records.write(topic, 0, 5)
    job.ingest()
    assert job.rows() == records.rows(topic, other)


def test_a_ledger_without_its_log_is_refused(topic, any_home):
    job = any_home(topic)
    job.ingest()
    shutil.rmtree(job.folder / "ledger" / "_delta_log")
    assert refused(job) == "ledger-damaged"


@pytest.mark.parametrize("group_commit", ["transactional", "none"])
def test_an_older_ledger_is_refused(group_commit, topic, any_home, records):
    """A copy from before the last run. That run's rows are in the table under the number that the next one would get:
    taken for landed, its records would be lost."""
    job = any_home(topic, group_commit=group_commit)
    job.ingest()
    copy_ledger(job)
    records.write(topic, 0, 5)
    job.ingest()
    restore_copy(job)
    records.write(topic, 1, 5)
    assert refused(job) == "ledger-older-than-table"
    assert not any(run.phase != "finished" for run in job.state.runs.values()), "it must not plan either"


def test_an_older_ledger_is_refused_where_the_table_is_another_one(topic, any_home, records):
    """Then the group's offsets tell: this very ledger has committed what it does not know of."""
    job = any_home(topic)
    job.ingest()
    copy_ledger(job)
    records.write(topic, 0, 5)
    job.ingest()
    restore_copy(job)
    job.change(sink={"path": "./lake/second"})
    assert refused(job) == "ledger-older"
    assert job.tables == ["first"]


def test_an_older_ledger_that_knows_the_run_as_planned_takes_it_up_rightly(topic, any_home, records):
    """The copy was made in the middle of the run: plan and rows agree, and nothing is read twice."""
    job = any_home(topic, group_commit="none")
    job.die("plan:after")
    copy_ledger(job)
    job.ingest()
    restore_copy(job)
    records.write(topic, 0, 5)
    job.ingest()
    job.ingest()
    job.assert_complete(runs=2, committed=False)


def test_an_older_ledger_is_refused_by_a_run_that_others_have_overtaken(topic, any_home, records):
    job = any_home(topic, group_commit="none")
    job.die("plan:after")
    copy_ledger(job)
    job.ingest()
    records.write(topic, 0, 5)
    job.ingest()
    restore_copy(job)
    assert refused(job) == "ledger-older-than-table"


def test_an_older_ledger_is_refused_by_a_backfill(topic, any_home, records):
    job = any_home(topic, group_commit="none")
    bounds = {"from_": [f"{topic}:0:0"], "to": [f"{topic}:0:10"]}
    job.ingest()
    copy_ledger(job)
    again = {**bounds, "mode": "append", "label": "again"}
    job.backfill(**again)
    restore_copy(job)
    rows = job.rows()
    with pytest.raises(Refused) as caught:
        job.backfill(**again)
    assert caught.value.code == "ledger-older-than-table"
    assert job.rows() == rows


def test_an_older_ledger_that_forgot_a_backfill_is_refused_by_every_chain(topic, any_home, records):
    """The backfill's offsets would land again: its app transaction is one that the next run never asks for."""
    job = any_home(topic, group_commit="none")
    job.ingest()
    copy_ledger(job)
    records.write(topic, 0, 10)
    end = records.ends(topic)[topic, 0]
    bounds = {"from_": [f"{topic}:0:{end - 10}"], "to": [f"{topic}:0:{end}"]}
    job.backfill(**bounds)
    restore_copy(job)
    assert refused(job) == "ledger-older-than-table"
    rows = job.rows()
    for again in (bounds, {**bounds, "mode": "append", "label": "more"}):
        with pytest.raises(Refused) as caught:
            job.backfill(**again)
        assert caught.value.code == "ledger-older-than-table"
    assert job.rows() == rows
