"""Retention of dead letters: what is deleted stays accounted for, and is never taken from under a redrive."""

from __future__ import annotations

import json
import shutil
from datetime import timedelta
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.errors import Refused
from kseg.etl.ledger import maintenance
from kseg.etl.operations.maintain import MaintenanceReport, MaintenanceRequest, maintain_job
from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.status import status
from kseg.etl.operations.verify import verify

#: Decoded, decoded once the job file says `time_zone`, and decoded by nothing.
GOOD, LOCAL, BROKEN = b'{"at": "2026-01-02T03:04:05Z"}', b'{"at": "2026-01-02 03:04:05"}', b'{"at": '
LETTERS = MaintenanceRequest(optimize=False, vacuum=None, ledger=False)


class Died(Exception):
    pass


@pytest.fixture
def job(records: Any, any_home: Any) -> Any:
    topic = str(records.topic(1))
    producer = Producer(records.settings)
    for value in (GOOD, LOCAL, GOOD, BROKEN, LOCAL, GOOD):
        producer.produce(topic, value=value)
    assert producer.flush(60) == 0
    decode = {"value": {"format": "json", "schema": {"columns": {"at": "timestamp"}}}, "on_error": "dead_letter"}
    return any_home(topic, decode=decode, sink={"dead_letters": {"path": "./lake/dead", "max": "100%"}})


def mend(job: Any) -> Any:
    return job.change(decode={"value": {"time_zone": "UTC"}})


def expire(job: Any, retention: timedelta | None = timedelta(0), **options: Any) -> MaintenanceReport:
    """`kseg maintain --dead-letters`, with a retention that no job file may have."""
    loaded = job.job
    letters = loaded.sink.dead_letters.model_copy(update={"retention": retention})
    sink = loaded.sink.model_copy(update={"dead_letters": letters})
    return maintain_job(loaded.model_copy(update={"sink": sink}), LETTERS, **options)


def maintain_dry(job: Any) -> Any:
    loaded = job.job
    kept = loaded.sink.dead_letters.model_copy(update={"retention": timedelta(0)})
    sink = loaded.sink.model_copy(update={"dead_letters": kept})
    request = MaintenanceRequest(optimize=False, vacuum=None, ledger=False, dry_run=True)
    return maintain_job(loaded.model_copy(update={"sink": sink}), request).letters


def at(step: str) -> Any:
    def observe(seen: str) -> None:
        if seen == step:
            raise Died(step)

    return observe


def letters(job: Any) -> list[int]:
    return sorted(job.table("dead").to_pyarrow_table()["offset"].to_pylist())


def rows(job: Any) -> list[int]:
    (table,) = (name for name in job.tables if name != "dead")
    return sorted(job.table(table).to_pyarrow_table()["_kseg_offset"].to_pylist())


def assert_accounted(job: Any, rows: int, **counts: int) -> None:
    found = verify(job.job)
    assert found.findings == []
    assert found.headline == f"all rows agree ({rows} rows), decoded again from their records"
    assert status(job.job).dead_letters == counts
    listed = ", ".join(f"{number} {state}" for state, number in counts.items())
    assert f"dead letters: {listed}; where one is open or expired, no row is due" in found.notes
    assert not [note for note in found.notes if "not in" in note]


def test_expired_letters_are_deleted_and_stay_accounted_for(job: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    job.ingest()
    mend(job).redrive(where='"offset" = 1')
    assert expire(job, timedelta(days=1)).letters[0].deleted == 0, "the run has just ended"
    (dry,) = maintain_dry(job)
    assert (dry.expired, dry.deleted) == ({"open": 2, "redriven": 1}, None)
    assert letters(job) == [1, 3, 4]

    with pytest.raises(Died):
        expire(job, observe=at("expire:after"))
    assert letters(job) == [1, 3, 4]
    assert_accounted(job, 4, expired=2, redriven=1)
    assert any("2 dead letters have expired" in note for note in job.redrive().notes)
    (found,) = expire(job, None).letters  # what was begun is completed
    assert (found.expired, found.deleted, letters(job)) == ({}, 3, [])
    assert_accounted(job, 4, expired=2, redriven=1)
    (again,) = expire(job).letters
    assert (again.expired, again.deleted) == ({}, 0)

    monkeypatch.setattr(maintenance, "RUNS_KEPT", 0)
    assert maintenance.summarise(job.ledger, job.document["name"], after=0)
    assert status(job.job).dead_letters == {"expired": 2, "redriven": 1}
    found = verify(job.job)
    assert (found.ok, found.headline.startswith(("all rows agree (4 rows)", "the addresses"))) == (True, True)
    assert any("2 dead letters have expired" in note for note in job.redrive().notes)
    job.backfill(mode="replace", from_=[f"{job.topics[0]}:0:0"], to=[f"{job.topics[0]}:0:6"])
    assert letters(job) == [3], "read again from Kafka, where the record still is"
    assert status(job.job).dead_letters["open"] == 1
    assert verify(job.job).ok


def produce(job: Any, *values: bytes) -> None:
    producer = Producer(job.records.settings)
    for value in values:
        producer.produce(job.topics[0], value=value)
    assert producer.flush(60) == 0


def test_letters_of_a_lost_ledger_have_a_way_out_where_kafka_has_lost_their_records(job: Any) -> None:
    """They stayed `unknown` for ever, whatever the retention of dead letters."""
    job.ingest()
    mend(job).redrive(where='"offset" = 1')
    shutil.rmtree(job.folder / "ledger")
    rebuild_ledger(job.job)
    job.records.delete_records(job.topics[0], 0, 6)
    produce(job, GOOD)
    job.ingest()
    assert status(job.job).dead_letters == {"unknown": 3}
    with pytest.raises(Refused) as refused:
        job.backfill(mode="replace", from_=[f"{job.topics[0]}:0:4"], to=[f"{job.topics[0]}:0:5"])
    assert refused.value.code == "data-lost"
    landed = rows(job)
    kept = job.table("dead").to_pyarrow_table().sort_by("offset").to_pylist()
    produce(job, *[row["value"] for row in kept if row["offset"] not in landed])
    job.ingest()
    assert rows(job) == [0, 1, 2, 5, 6, 8]
    assert status(job.job).dead_letters == {"open": 1, "unknown": 3}
    (found,) = expire(job).letters
    assert (found.expired, found.deleted, letters(job)) == ({"open": 1, "unknown": 3}, 4, [])
    assert status(job.job).dead_letters == {"expired": 4}
    assert job.redrive().status == "nothing-to-do"
    checked = verify(job.job)
    assert checked.ok, checked.findings


def test_letters_of_a_restored_table_do_not_expire(job: Any) -> None:
    """The state after the deletion hid the RESTORE from all later runs."""
    job.ingest()
    before = job.table("dead").version()
    producer = Producer(job.records.settings)
    producer.produce(job.topics[0], value=BROKEN)
    assert producer.flush(60) == 0
    job.ingest()
    job.table("dead").restore(before)
    with pytest.raises(Refused) as refused:
        expire(job)
    assert refused.value.code == "table-restored"
    with pytest.raises(Refused) as refused:
        job.ingest()
    assert refused.value.code == "table-restored"


def test_letters_that_a_redrive_has_planned_stay_until_it_is_done(job: Any) -> None:
    job.ingest()
    mend(job).die_redriving("plan:after")
    (found,) = expire(job).letters
    assert (found.expired, found.deleted, letters(job)) == ({}, 0, [1, 3, 4])
    job.redrive()
    (found,) = expire(job).letters
    assert (found.expired, found.deleted, letters(job)) == ({"open": 1, "redriven": 2}, 3, [])
    assert_accounted(job, 5, expired=1, redriven=2)


def test_a_redrive_plans_nothing_that_is_about_to_be_deleted(job: Any, look_behind: Any) -> None:
    job.ingest()
    mend(job)
    look_behind("kseg.etl.run.pipeline", lambda: expire(job))  # between the letters' reading and the plan
    assert job.redrive().status == "nothing-to-do"
    assert letters(job) == []
    assert_accounted(job, 3, expired=3)


def test_the_command_deletes_what_the_job_file_says(job: Any) -> None:
    job.ingest()
    job.change(sink={"dead_letters": {"retention": "90d"}})
    assert job.job.dead_letter_retention == timedelta(days=90)
    report = maintain_job(job.job, LETTERS)
    assert json.loads(json.dumps(report.to_json()))["letters"][0]["deleted"] == 0
    assert letters(job) == [1, 3, 4]
