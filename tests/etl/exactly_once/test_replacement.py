"""Replacing removes what it puts back, of its own source: what cannot be read again stays, and so do others' rows."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger import maintenance
from kseg.etl.operations.verify import verify
from kseg.etl.planning import plan
from kseg.etl.source.errors import OffsetsLost


def replacing(topic: str, *ranges: tuple[int, int, int], **options: Any) -> dict[str, Any]:
    return {
        "from_": [f"{topic}:{partition}:{start}" for partition, start, _ in ranges],
        "to": [f"{topic}:{partition}:{end}" for partition, _, end in ranges],
        "mode": "replace",
        **options,
    }


# --- what cannot be read again


@pytest.mark.parametrize("step", ["plan:after", "land:first:before"])
def test_rows_of_records_that_retention_removed_since_the_plan_stay(step, topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    before, request = job.rows(), replacing(topic, (0, 0, 30))
    job.die(step, **request)
    records.delete_records(topic, 0, 10)
    if step == "plan:after":
        with pytest.raises(OffsetsLost):
            job.backfill(**request)
    job.change(source={"on_data_loss": "record"})
    assert job.backfill(**request).status == "done"
    assert job.rows() == before
    assert job.ingest().status == "nothing-to-do"
    assert job.frontiers() == records.ends(topic)


def test_rows_of_records_that_were_lost_before_the_plan_stay(topic, any_home, records):
    job = any_home(topic, source={"on_data_loss": "record"})
    job.ingest()
    before = job.rows()
    records.delete_records(topic, 0, 10)
    assert job.backfill(**replacing(topic, (0, 0, 30))).status == "done"
    assert job.rows() == before


@pytest.mark.parametrize("last", ["land:first:committed", "land:first:after"])
@pytest.mark.parametrize("first", ["plan:after", "land:first:before"])
def test_rows_that_an_abandoned_replace_had_left_are_landed_still(first, last, topic, any_home, records):
    """What it had replaced is open again and read again; the others cannot be. An attempt that could read more, and
    died before its commit, counts for nothing."""
    job = any_home(topic, source={"on_data_loss": "record"})
    job.ingest()
    before, request = job.rows(), replacing(topic, (0, 0, 30))
    job.die(first, **request)
    records.delete_records(topic, 0, 10)
    job.die(last, **request)
    (run,) = job.state.unfinished_runs()
    job.abandon(run.run_id)
    left = [row for row in before if not (row[1] == 0 and 10 <= row[2] < 30)]
    assert job.rows() == left
    assert job.frontiers()[topic, 0] == 10
    job.change(source={"on_data_loss": "fail"})
    assert job.ingest().status == "done"
    assert job.rows() == before


def test_a_replace_is_verified_by_what_the_attempt_that_landed_could_read(topic, any_home, records):
    job = any_home(topic, source={"on_data_loss": "record"})
    job.ingest()
    before, request = job.rows(), replacing(topic, (0, 0, 30))
    job.die("land:first:before", **request)
    records.delete_records(topic, 0, 10)
    assert job.backfill(**request).status == "done"
    assert job.rows() == before
    (run,) = [run for run in job.state.runs.values() if run.mode == "backfill-replace"]
    assert {tp.partition: list(offsets) for tp, offsets in (run.kept or {}).items()} == {0: [(0, 10)]}
    assert run.attempts_kept == ()
    assert verify(job.job).findings == []


# --- whose rows


def two_jobs(topic: str, home: Any) -> tuple[Any, Any]:
    """Two jobs over one topic and one table, each with a ledger of its own: every row is there twice."""
    first = home(topic)
    second = home(topic, sink={"path": str(first.folder / "lake" / "first")})
    for job in (first, second):
        job.ingest()
    return first, second


def runs_of(job: Any) -> Counter[str]:
    return Counter(job.table("first").to_pyarrow_table()["_kseg_run"].to_pylist())


def test_rows_that_another_ledger_landed_at_the_same_addresses_stay(topic, any_home):
    first, second = two_jobs(topic, any_home)
    rows, of_second = first.rows(), runs_of(first)[next(iter(second.state.runs))]
    first.backfill(**replacing(topic, (0, 0, 30)))
    assert first.rows() == rows
    assert runs_of(first)[next(iter(second.state.runs))] == of_second


def test_rows_of_a_ledger_that_is_adopted_are_replaced(topic, any_home, records):
    first, second = two_jobs(topic, any_home)
    ends = [(partition, 0, end) for (_, partition), end in records.ends(topic).items()]
    with pytest.raises(ConfigurationError, match="there is no ledger"):
        first.backfill(**replacing(topic, *ends, adopt=[str(first.folder / "no-ledger")]))
    first.backfill(**replacing(topic, *ends, adopt=[str(second.folder / "ledger")]))
    assert first.rows() == records.rows(topic)


@pytest.fixture
def of_0_1_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run ids as release 0.1.0 gave them, and runs that a summary has dropped."""
    monkeypatch.setattr(plan, "incremental_run_id", lambda *_: uuid.uuid4().hex)
    monkeypatch.setattr(maintenance, "RUNS_KEPT", 0)


def forget_runs(job: Any) -> None:
    maintenance.summarise(job.ledger, job.document["name"], after=0)
    assert not job.ledger.read(job.document["name"]).runs


@pytest.mark.usefixtures("of_0_1_0")
def test_rows_of_runs_that_the_ledger_has_forgotten_are_its_own_where_no_other_has_landed(topic, any_home, records):
    job = any_home(topic)
    job.ingest()
    forget_runs(job)
    job.backfill(**replacing(topic, (0, 0, 30)))
    assert job.rows() == records.rows(topic)


@pytest.mark.usefixtures("of_0_1_0")
def test_rows_that_may_be_anothers_are_not_replaced_before_somebody_says_whose(topic, any_home, records):
    first, second = two_jobs(topic, any_home)
    forget_runs(first)
    rows = first.rows()
    with pytest.raises(Refused) as caught:
        first.backfill(**replacing(topic, (0, 0, 30)))
    assert caught.value.code == "rows-of-unknown-run"
    assert first.rows() == rows
    (run,) = first.state.unfinished_runs()
    first.abandon(run.run_id)
    ends = [(partition, 0, end) for (_, partition), end in records.ends(topic).items()]
    first.backfill(**replacing(topic, *ends, adopt=[str(second.folder / "ledger")]))
    assert first.rows() == records.rows(topic)
    assert first.state.frontier(TopicPartition(topic, 0)) == records.ends(topic)[topic, 0]
