"""What a real run tells: real brokers, real Spark, one page, one file of metrics, one line of events."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer
from prometheus_client.parser import text_string_to_metric_families

from kseg.client import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import Refused
from kseg.etl.run.pipeline import run_ingest
from kseg.jobs.cli import cli
from kseg.jobs.invocation.failures import failure_of
from kseg.jobs.report.from_ledger import outcome_of
from kseg.jobs.report.lineage import run_uuid
from kseg.jobs.report.options import ReportOptions
from kseg.jobs.report.page import render
from kseg.jobs.report.reporter import Reporter

pytestmark = [pytest.mark.broker, pytest.mark.spark]

RECORDS = 500


@pytest.fixture
def job(kafka: Any, spark: Any, tmp_path: Path) -> Job:
    """Two partitions of 500 records; a task is 200 offsets."""
    topic = kafka.topic(2, prefix="told")
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(2 * RECORDS):
        producer.produce(topic, b"v" * 50, partition=number % 2)
    producer.flush()
    file = tmp_path / "job.yaml"
    file.write_text(
        f"version: 1\nname: told\nkafka: {{bootstrap.servers: '{kafka.bootstrap_servers}'}}\n"
        f"source: {{topics: [{topic}], max_records_per_task: 200}}\n"
        f"sink: {{path: ./lake}}\nledger: ./ledger\ngroup: {topic}-etl\n"
        "reporting: {report: ./reports, metrics_file: ./told.prom, openlineage: {timeout: 5m}}\n"
    )
    return load_job(file)


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """The lineage events so far."""
    file = tmp_path / "events.ndjson"
    before = dict(os.environ)
    os.environ["OPENLINEAGE__TRANSPORT"] = json.dumps({"type": "file", "log_file_path": str(file), "append": True})
    yield lambda: [json.loads(line) for line in file.read_text().splitlines()]
    os.environ.clear()
    os.environ.update(before)


def test_a_run_leaves_behind_what_its_tasks_and_brokers_told(
    job: Job, tmp_path: Path, events: Callable[[], list[dict[str, Any]]]
) -> None:
    reporter = Reporter(ReportOptions(), "ingest")
    report = run_ingest(job, progress=reporter)
    document = report.to_json()
    reporter.close(document, 0)

    fetched = [line for line in document["traffic"] if line["api"] == "Fetch"]
    assert sum(line["requests"] for line in fetched) >= 1
    assert sum(line["bytes_in"] for line in fetched) > document["tasks"]["bytes"] > 50 * RECORDS
    assert all(line["errors"] == 0 for line in fetched)
    asked = {line["api"] for line in document["traffic"]}
    assert {"Metadata", "ListOffsets", "OffsetFetch", "TxnOffsetCommit", "EndTxn"} <= asked, "the driver's own as well"
    assert (document["tasks"]["planned"], document["tasks"]["ended"]) == (6, 6)

    told = reporter._recorder.telemetry
    [topic] = {tp.topic for tp in told.last}
    for number in (0, 1):
        tp = TopicPartition(topic, number)
        assert told.partitions[tp].rows == RECORDS
        first, last = told.first[tp], told.last[tp]
        assert (first.frontier, first.high_watermark, first.committed) == (0, RECORDS, -1)
        assert (last.frontier, last.high_watermark, last.committed) == (RECORDS, RECORDS, RECORDS)

    page = Path(document["report"])
    assert page.parent == tmp_path / "reports"
    html = page.read_text()
    assert f"{topic}-1" in html
    assert "Throughput over time" in html

    families = {f.name: f.samples for f in text_string_to_metric_families((tmp_path / "told.prom").read_text())}
    assert sum(s.value for s in families["kseg_last_run_rows"]) == 2 * RECORDS
    assert [s.value for s in families["kseg_topic_lag_offsets"]] == [0]

    assert [event["eventType"] for event in events()] == ["START", "RUNNING", "COMPLETE"]
    statistics = events()[-1]["outputs"][0]["outputFacets"]["outputStatistics"]
    assert statistics["rowCount"] == 2 * RECORDS

    later = outcome_of(job, report.run_id[:6] if report.run_id else None)
    assert later.rows == 2 * RECORDS
    assert "✓ holds" in render(later)
    assert "What this page does not know" in render(later)
    with pytest.raises(Refused, match="no run nobody"):
        outcome_of(job, "nobody")

    again = Reporter(ReportOptions(), "ingest")
    nothing = run_ingest(job, progress=again).to_json()
    again.close(nothing, 0)
    assert nothing["status"] == "nothing-to-do"
    assert "Nothing to do" in Path(nothing["report"]).read_text()
    assert len(events()) == 3


def test_a_commands_page_in_a_bucket_its_metrics_and_its_events_tell_of_one_run(
    job: Job, tmp_path: Path, events: Callable[[], list[dict[str, Any]]], s3: Any
) -> None:
    words = ["ingest", str(tmp_path / "job.yaml"), "--json", "--report", "s3://logs/runs"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)
    run = told["run"]
    [topic] = job.source.topics
    assert told["counts"]["records"] == 2 * RECORDS
    assert told["report"] == f"s3://logs/runs/told-{run}.html"
    html = (s3.folder / "runs" / f"told-{run}.html").read_text()
    assert run in html
    assert f"{topic}-1" in html
    assert [one.method for one in s3.asked] == ["PUT"]
    assert {event["run"]["runId"] for event in events()} == {str(run_uuid(run))}
    families = {f.name: f.samples for f in text_string_to_metric_families((tmp_path / "told.prom").read_text())}
    assert sum(sample.value for sample in families["kseg_last_run_rows"]) == 2 * RECORDS

    again = CliRunner().invoke(cli, [*words, "--report", "s3://no-such-bucket/pages"])
    assert again.exit_code == 0, "a page that the store refuses fails no run"
    told = json.loads(again.stdout)
    assert (told["status"], told["report"]) == ("nothing-to-do", None)
    assert "the report could not be written" in told["notes"][-1]


def test_a_run_that_fails_tells_what_was_known(job: Job, tmp_path: Path) -> None:
    job = job.model_copy(update={"source": job.source.model_copy(update={"topics": ("no-such-topic",)})})
    reporter = Reporter(ReportOptions(report=str(tmp_path / "failed.html")), "ingest")
    with pytest.raises(Exception, match="no-such-topic") as caught:
        run_ingest(job, progress=reporter)
    failure = failure_of(caught.value)
    reporter.close(failure.to_json(), failure.exit_code)
    html = (tmp_path / "failed.html").read_text()
    assert "no-such-topic" in html
    assert "Bad configuration" in html
    families = {f.name: f.samples for f in text_string_to_metric_families((tmp_path / "told.prom").read_text())}
    assert [s.value for s in families["kseg_last_run_exit_code"]] == [2]
    assert "kseg_last_success_timestamp_seconds" not in families
