"""A table is verified against a rebuilt ledger, which does not know which records the lost ledger's runs left out: what
is right is not found wrong, and a row that is lost is found as far as it is known that there was one."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from confluent_kafka import Producer

from kseg.etl.operations.rebuild_ledger import rebuild_ledger
from kseg.etl.operations.verify import verify
from skips import IN_FULL

VALUE = {"format": "json", "schema": {"columns": {"id": "bigint"}}}
DEAD_LETTERS = {"on_error": "dead_letter"}
TOMBSTONES = {"value": {"tombstones": "drop"}}


def write(job: Any, *values: bytes | None) -> None:
    producer = Producer(job.records.settings)
    for value in values:
        producer.produce(job.topics[0], value, partition=0)
    assert producer.flush(60) == 0


def row(number: int) -> bytes:
    return json.dumps({"id": number}).encode()


@pytest.fixture
def rebuilt(records: Any, local_home: Any) -> Any:
    """rebuilt(decode, *values): a job that has landed these values, with a rebuilt ledger."""

    def make(decode: dict[str, Any], *values: bytes | None) -> Any:
        decode = {**decode, "value": {**VALUE, **decode.get("value", {})}}
        sink = {"dead_letters": {"path": "./lake/dead", "max": "100%"}} if "on_error" in decode else {}
        job = local_home(str(records.topic(1)), decode=decode, sink=sink)
        write(job, *values)
        job.ingest()
        shutil.rmtree(job.folder / "ledger")
        rebuild_ledger(job.job)
        return job

    return make


@pytest.fixture(params=[False, True], ids=["driver", "spark"])
def verified(request: pytest.FixtureRequest, scale: Any) -> Any:
    """verified(job): kinds and offsets of the findings, and the report."""
    if request.param and not scale(False, True):
        pytest.skip(IN_FULL)
    if request.param:
        request.getfixturevalue("spark")

    def ask(job: Any) -> tuple[list[tuple[str, int | None]], Any]:
        report = verify(job.job, in_spark=request.param)
        return sorted((found.kind, found.offset) for found in report.findings), report

    return ask


def test_records_that_were_left_out_are_no_gaps(rebuilt: Any, verified: Any) -> None:
    for decode, left_out in ((DEAD_LETTERS, b"bad"), (TOMBSTONES, None)):
        job = rebuilt(decode, row(0), left_out, row(2))
        write(job, row(3))
        job.ingest()
        findings, report = verified(job)
        assert findings == []
        assert report.tables[0].compared == "decoded"
        assert report.tables[0].rows == 3, "the offset that has no row is not counted"
        assert any("may have no row" in note for note in report.notes)


def test_a_lost_row_beside_dead_letters_is_a_gap(rebuilt: Any, verified: Any) -> None:
    """It was not noticed: one dead letter of the lost ledger had all rows counted only."""
    job = rebuilt(DEAD_LETTERS, row(0), b"bad", row(2))
    job.table("first").delete("_kseg_offset = 2")
    assert verified(job)[0] == [("gap", 2)]


def test_rows_that_are_there_are_compared_where_tombstones_are_dropped(rebuilt: Any, verified: Any) -> None:
    job = rebuilt(TOMBSTONES, row(0), None, row(2))
    job.table("first").update(updates={"_kseg_offset": "0"}, predicate="_kseg_offset = 2")
    assert verified(job)[0] == [("duplicate", 0)], "and the row that is missing may be a tombstone's"


def test_a_dead_letter_that_has_landed_since_is_due(rebuilt: Any, verified: Any) -> None:
    job = rebuilt({**DEAD_LETTERS, "expect": {"id": "< 100"}}, row(0), row(500), row(2))
    job.change(decode={"expect": {"id": "< 1000"}})
    topic = job.topics[0]
    job.backfill(mode="replace", from_=[f"{topic}:0:0"], to=[f"{topic}:0:3"])
    assert verified(job)[0] == []
    job.table("first").delete("_kseg_offset = 1")
    assert verified(job)[0] == [("gap", 1)]


def test_counts_say_what_was_not_counted(rebuilt: Any, verified: Any) -> None:
    job = rebuilt(DEAD_LETTERS, row(0), b"bad", row(2))
    write(job, b"bad", row(4))
    job.ingest()
    job.table("dead").delete("offset = 3")  # which of the new run's records have no row is not known any more
    findings, report = verified(job)
    assert (findings, report.tables[0].compared) == ([], "counts")
    notes = " ".join(report.notes)
    assert "their rows were not counted" in notes
    assert "each row was compared with Kafka" not in notes
