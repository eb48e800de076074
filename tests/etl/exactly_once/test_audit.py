"""Drift between asset events, ledger, tables and group offsets is found, with its place; where none is, none told."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.operations import audit_events
from kseg.etl.operations.audit import audit
from kseg.etl.operations.audit_events import parse_events
from kseg.etl.run.report_sum import ReportSum


def event_of(report: Any) -> dict[str, Any]:
    """As the operators make it, out of the run's report."""
    told = report.to_json()
    keys = {key: told[key] for key in ("job", "run", "mode", "counts", "tables", "group")}
    ranges = [{key: one[key] for key in ("topic", "partition", "start", "end")} for one in told["ranges"]]
    return {"kseg": {"version": 1, "interval": None, "report": None, "ranges": ranges, **keys}}


def kinds(job: Any, *events: Any) -> list[str]:
    return [one.kind for one in audit(job.job, parse_events(json.dumps(events))).differences]


@pytest.fixture
def landed(any_home, records, monkeypatch):
    """A job with two runs, and their events as they came."""
    monkeypatch.setattr(audit_events, "GRACE", -audit_events.GRACE)
    topic = records.topic(2)
    job = any_home(topic)
    events = []
    for _ in range(2):
        records.write_mixed(topic, rounds=1, count=6)
        records.settle(topic)
        events.append(event_of(job.ingest()))
    return job, events


def test_events_against_the_ledger(landed, records):
    job, (first, second) = landed
    report = audit(job.job, parse_events(json.dumps([first, second])))
    assert report.ok, report.differences
    assert report.checked == {"events": 2, "tables": 1, "commits": 2, "partitions": 2, "runs": 2}
    assert kinds(job, second) == [], "older events may be left out"
    assert kinds(job, first) == ["event-missing"]
    assert kinds(job, first, second, second) == ["event-duplicate"]
    of_others = {"kseg": {**first["kseg"], "job": "another"}}
    assert kinds(job, first, second, of_others, {"somebody": "else's"}) == []
    unknown = {"kseg": {**first["kseg"], "run": "0" * 32}}
    assert kinds(job, first, second, unknown) == ["event-unknown-run"]


def test_the_events_of_a_drain_and_of_a_retry_tell_of_several_runs(any_home, records, monkeypatch):
    """A drain's sum contradicted its last run, and runs of earlier tries had no event."""
    monkeypatch.setattr(audit_events, "GRACE", -audit_events.GRACE)
    job = any_home(records.topic(2))
    total, events = ReportSum(), []
    for _ in range(3):
        records.write_mixed(job.topics[0], rounds=1, count=6)
        records.settle(job.topics[0])
        report = job.ingest()
        total.add(report)
        events.append(event_of(report))
    first, second, third = (one["kseg"] for one in events)
    drained = {"kseg": event_of(total.report)["kseg"] | {"runs": [one["run"] for one in (first, second, third)]}}
    assert kinds(job, drained) == []
    assert kinds(job, {"kseg": third | {"earlier": [first, second]}}) == []
    assert kinds(job, {"kseg": third | {"earlier": [first]}}) == ["event-missing"]
    wrong = drained["kseg"] | {"runs": [first["run"], third["run"]]}
    assert set(kinds(job, {"kseg": wrong})) == {"event-contradicts", "event-missing"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda e: e["counts"].update(records=1), "records is 1"),
        (lambda e: e["ranges"][0].update(start=1), "[1, "),
        (lambda e: e["tables"][0].update(version=77), "version 77"),
        (lambda e: e["tables"][0].update(path="/lake/x"), "/lake/x"),
        (lambda e: e.update(mode="interval"), "mode is interval"),
    ],
    ids=["counts", "ranges", "version", "table", "mode"],
)
def test_an_event_that_tells_something_else(landed, change, told):
    job, (first, second) = landed
    change(second["kseg"])
    found = audit(job.job, parse_events(json.dumps([first, second]))).differences
    assert {one.kind for one in found} == {"event-contradicts"}
    assert told in found[0].message
    assert found[0].address == {"run": second["kseg"]["run"]}
    assert found[0].remedy


def test_what_happened_to_group_table_and_ledger(landed, records):
    job, (first, second) = landed
    ledger = job.folder / "ledger"
    shutil.copytree(ledger, job.folder / "copy")
    topic = job.topics[0]
    ends = job.group_offsets()
    records.set_group_offsets(job.group, {(topic, 0): ends[topic, 0] - 3})
    (found,) = audit(job.job).differences
    assert (found.kind, found.address["partition"], found.address["offset"]) == ("group-behind", 0, ends[topic, 0] - 3)
    records.set_group_offsets(job.group, {(topic, 0): ends[topic, 0]})
    assert audit(job.job).ok

    records.write(topic, 1, 4)
    third = event_of(job.ingest())
    assert kinds(job, first, second, third) == []
    shutil.rmtree(ledger)
    (job.folder / "copy").rename(ledger)
    found = audit(job.job, parse_events(json.dumps([first, second, third]))).differences
    assert {one.kind for one in found} == {"event-unknown-run", "ledger-older-than-table", "group-ahead"}

    table = job.table("first")
    table.restore(table.version() - 1)
    assert "table-restored" in kinds(job, first, second)


def test_a_group_behind_a_backfill_is_a_note_and_an_abandoned_run_a_difference(any_home, records):
    topic = records.topic(1)
    job = any_home(topic)
    records.write(topic, 0, 4)
    job.ingest()
    records.write(topic, 0, 4)
    event = event_of(job.backfill(from_=[f"{topic}:0:4"], to=[f"{topic}:0:8"]))
    report = audit(job.job, parse_events(json.dumps([event])))
    assert report.ok
    assert "behind the frontier in 1 partitions" in " ".join(report.notes)
    records.write(topic, 0, 4)
    job.die("land:first:after", from_=[f"{topic}:0:8"], to=[f"{topic}:0:12"])
    run = next(job.state.unfinished_runs())
    assert "is landing" in " ".join(audit(job.job).notes)
    job.abandon(run.run_id)
    gone = {"kseg": {**event["kseg"], "run": run.run_id}}
    assert kinds(job, event, gone) == ["event-of-abandoned-run"]


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"kseg": {"version": 2, "run": "x"}}]'])
def test_what_is_no_list_of_events(text: str) -> None:
    with pytest.raises(ConfigurationError):
        parse_events(text)
