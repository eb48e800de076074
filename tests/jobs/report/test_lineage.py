"""OpenLineage events as a backend receives them, over real HTTP, held against what the specification asks for."""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from java_programs import SHORT_LIVED
from kseg.etl.errors import Refused
from kseg.etl.telemetry.events import JobOpened
from kseg.jobs.broker import jars
from kseg.jobs.broker.errors import JarsUnavailable, JavaMissing
from kseg.jobs.broker.java import find_java
from kseg.jobs.invocation.failures import TerminatedError, failure_of
from kseg.jobs.report.lineage import configured, dataset_of_path, dataset_of_topic, run_uuid
from kseg.jobs.report.options import ReportOptions
from kseg.jobs.report.reporter import Reporter

PARENT = "0198a1c0-7c4e-7b5d-9a43-0c6f3a2b1d55"
PAGE = Path(__file__).parents[3] / "docs" / "guides" / "reports.md"

# What https://openlineage.io/spec/2-0-2/OpenLineage.json and the facets' own schemas require, and each value's type.
FACETS = {
    "processing_engine": "run: kseg and its version",
    "parent": "run: who started it, by OPENLINEAGE_PARENT_ID (and OPENLINEAGE_ROOT_PARENT_ID)",
    "nominalTime": "run: the data interval of `kseg backfill --interval`",
    "tags": "run: `kseg_run`, kseg's run id, which all attempts at a run share",
    "errorMessage": "run: what went wrong, of FAIL and ABORT",
    "jobType": "job: BATCH, KSEG, JOB",
    "ownership": "job: `airflow.owner` of the job file",
    "schema": "output: the landed columns",
    "version": "output: the Delta version of the run's commit",
    "storage": "output: delta, parquet",
    "outputStatistics": "output: rows, bytes and files of the run's commit",
    "inputStatistics": "input: records read and bytes fetched",
}

REQUIRED: dict[str, dict[str, type]] = {
    "processing_engine": {"version": str},
    "parent": {"run": dict, "job": dict},
    "nominalTime": {"nominalStartTime": str},
    "errorMessage": {"message": str, "programmingLanguage": str},
    "jobType": {"processingType": str, "integration": str},
    "ownership": {"owners": list},
    "schema": {"fields": list},
    "version": {"datasetVersion": str},
    "storage": {"storageLayer": str},
    "outputStatistics": {"rowCount": int},
    "inputStatistics": {"rowCount": int},
}


def check_facets(facets: dict[str, Any]) -> None:
    for name, facet in facets.items():
        assert name in {*FACETS, "tags"}, "the client adds its own version as a tag"
        assert urlsplit(facet["_producer"]).scheme
        assert re.match(r"https://openlineage\.io/spec/facets/\d+-\d+-\d+/\w+\.json#/\$defs/\w+", facet["_schemaURL"])
        for key, kind in REQUIRED.get(name, {}).items():
            assert isinstance(facet[key], kind), f"{name}.{key}"


def check(event: dict[str, Any]) -> None:
    """The specification's rules for a run event."""
    assert set(event) >= {"eventTime", "producer", "schemaURL", "run", "job"}
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert urlsplit(event["producer"]).scheme
    assert event["eventType"] in ("START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER")
    uuid.UUID(event["run"]["runId"])
    assert event["job"]["namespace"]
    assert event["job"]["name"]
    check_facets(event["run"]["facets"])
    check_facets(event["job"]["facets"])
    for dataset in event["inputs"]:
        check_facets({**dataset.get("facets", {}), **dataset.get("inputFacets", {})})
    for dataset in event["outputs"]:
        check_facets({**dataset.get("facets", {}), **dataset.get("outputFacets", {})})


class Backend:
    """Receives events; `hold` keeps its answers back until the test has ended."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.hold = threading.Event()
        self.hold.set()
        backend = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                backend.hold.wait(60)
                backend.events.append(json.loads(body))
                self.send_response(201)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()


@pytest.fixture(autouse=True)
def _environment() -> Iterator[None]:
    """The client writes what it was told by one variable into others."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture
def backend(monkeypatch: pytest.MonkeyPatch) -> Iterator[Backend]:
    running = Backend()
    monkeypatch.setenv("OPENLINEAGE_URL", running.url)
    yield running
    running.hold.set()
    for thread in threading.enumerate():  # one that a run did not wait for would send to the next test's backend
        if thread.name == "kseg-lineage":
            thread.join(60)
    running.server.shutdown()
    running.server.server_close()
    running.thread.join()


def run(
    told: Any, document: dict[str, Any] | None = None, exit_code: int = 0, upto: int | None = None
) -> dict[str, Any]:
    reporter = Reporter(ReportOptions(), "ingest")
    for fact in told.facts[:upto]:
        reporter.event(fact)
    document = told.document if document is None else document
    reporter.close(document, exit_code)
    return document


def test_a_run_begins_commits_and_completes(told: Callable[..., Any], backend: Backend, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "lake")
    this = told()
    document = run(this)
    for event in backend.events:
        check(event)
    start, running, complete = backend.events
    assert [e["eventType"] for e in backend.events] == ["START", "RUNNING", "COMPLETE"]
    assert {e["run"]["runId"] for e in backend.events} == {str(uuid.UUID(this.plan.run_id))}
    assert {(e["job"]["namespace"], e["job"]["name"]) for e in backend.events} == {("lake", "orders.ingest")}
    [source], [target] = complete["inputs"], complete["outputs"]
    assert (source["namespace"], source["name"]) == ("kafka://broker-1:9092", "orders")
    assert source["inputFacets"]["inputStatistics"]["rowCount"] == 240
    assert (target["namespace"], target["name"]) == ("file", this.table)
    assert target["facets"]["version"]["datasetVersion"] == "3"
    assert [f["name"] for f in target["facets"]["schema"]["fields"]] == ["key", "value"]
    statistics = target["outputFacets"]["outputStatistics"]
    assert (statistics["rowCount"], statistics["size"], statistics["fileCount"]) == (240, 4096, 2)
    assert running["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 240
    assert start["outputs"][0]["name"] == this.table
    assert not start["outputs"][0]["outputFacets"], "nothing is known of it yet"
    assert complete["job"]["facets"]["ownership"]["owners"][0]["name"] == "data-platform"
    assert not document["notes"]
    assert "hunter2" not in json.dumps(backend.events)


def read_by_java(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the classes that OpenLineage makes from its specification for backends understood of them."""
    spark = find_spec("pyspark")
    assert spark is not None
    assert spark.origin is not None
    try:
        folders, java = [jars.ensure(jars.OPENLINEAGE), Path(spark.origin).parent / "jars"], find_java().command
    except (JarsUnavailable, JavaMissing) as fault:
        pytest.skip(f"no Java, or no OpenLineage jar: {fault}")
    class_path = os.pathsep.join(f"{folder}/*" for folder in folders)
    done = subprocess.run(
        [java, *SHORT_LIVED, "-Xmx512m", "-cp", class_path, str(Path(__file__).parent / "Events.java")],
        input="".join(json.dumps(event) + "\n" for event in events),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_openlineages_own_classes_read_every_event(
    told: Callable[..., Any], backend: Backend, monkeypatch: Any
) -> None:
    """Another language's implementation of the format, which knows nothing of the client that wrote it."""
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/orders.ingest/{PARENT}")
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", f"airflow/orders/{PARENT}")
    this = told(mode="interval")
    run(this)
    run(this, {"error": {"kind": "KafkaError", "message": "away"}}, exit_code=4)
    found = read_by_java(backend.events)
    assert [event["type"] for event in found] == ["START", "RUNNING", "COMPLETE", "START", "RUNNING", "FAIL"]
    complete, failed = found[2], found[-1]
    assert complete == {
        "type": "COMPLETE",
        "run": str(uuid.UUID(this.plan.run_id)),
        "job": "default orders.ingest",
        "engine": "kseg",
        "tag kseg_run": this.plan.run_id,
        **{key: value for key, value in complete.items() if key.startswith("tag openlineage")},
        "begins": "2026-01-01T00:00:00Z",
        "ends": "2026-01-02T00:00:00Z",
        "parent": f"orders.ingest {PARENT}",
        "root": "orders",
        "processing": "BATCH",
        "owner": "data-platform",
        "input": "kafka://broker-1:9092 orders",
        "read": 240,
        "output": f"file {this.table}",
        "storage": "delta parquet",
        "version": "3",
        "columns": ["key binary", "value binary"],
        "written": [240, 4096, 2],
        "unknown": [],
    }
    assert failed["error"] == "away"
    assert not any(event["unknown"] for event in found)


def test_an_attempt_that_takes_a_run_up_is_a_run_of_its_own(told: Callable[..., Any], backend: Backend) -> None:
    """For OpenLineage a run has ended with its FAIL: a second START under its id would make a run that never ends."""
    first, second = told(), told()
    run(first, {"error": {"kind": "KafkaError", "message": "away"}}, exit_code=4)
    second.attempt = 7
    run(second)
    failed, done = [[e for e in backend.events if e["eventType"] == last] for last in ("FAIL", "COMPLETE")]
    assert [e["eventType"] for e in backend.events].count("START") == 2
    assert failed[0]["run"]["runId"] == str(uuid.UUID(first.plan.run_id))
    assert len({e["run"]["runId"] for e in backend.events}) == 2
    assert done[0]["run"]["runId"] == str(run_uuid(first.plan.run_id, 7))
    for event in backend.events:
        check(event)
        tags = {tag["key"]: tag["value"] for tag in event["run"]["facets"]["tags"]["tags"]}
        assert tags["kseg_run"] == first.plan.run_id


def test_who_started_it_is_its_parent(told: Callable[..., Any], backend: Backend, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"airflow/orders.ingest/{PARENT}")
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", f"airflow/orders/{PARENT}")
    run(told(mode="interval"))
    for event in backend.events:
        check(event)
    facets = backend.events[-1]["run"]["facets"]
    parent = facets["parent"]
    assert (parent["job"]["namespace"], parent["job"]["name"]) == ("airflow", "orders.ingest")
    assert (parent["run"]["runId"], parent["root"]["job"]["name"]) == (PARENT, "orders")
    nominal = facets["nominalTime"]
    assert (nominal["nominalStartTime"], nominal["nominalEndTime"]) == ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z")


@pytest.mark.parametrize("parent", ["", "no", "a/b/not-a-uuid", f"/{PARENT}"])
def test_a_parent_that_is_none_is_left_out(
    told: Callable[..., Any], backend: Backend, monkeypatch: Any, parent: str
) -> None:
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", parent)
    run(told(), upto=3)
    assert all("parent" not in event["run"]["facets"] for event in backend.events)


@pytest.mark.parametrize(
    ("error", "kind"),
    [(Refused("offsets-absent", "offsets are absent", remedy="r"), "FAIL"), (TerminatedError(), "ABORT")],
)
@pytest.mark.parametrize("upto", [1, 8])
def test_a_run_that_does_not_end_well_says_so(
    told: Callable[..., Any], backend: Backend, error: BaseException, kind: str, upto: int
) -> None:
    """Also one that was never pinned: it has failed before anything was planned."""
    failure = failure_of(error)
    run(told(), failure.to_json(), failure.exit_code, upto)
    for event in backend.events:
        check(event)
    assert [event["eventType"] for event in backend.events] == ["START", kind]
    assert len({event["run"]["runId"] for event in backend.events}) == 1
    assert backend.events[-1]["run"]["facets"]["errorMessage"]["message"] == failure.document["message"]


def test_a_run_with_nothing_to_do_is_no_event(told: Callable[..., Any], backend: Backend) -> None:
    run(told(), {"status": "nothing-to-do"}, upto=2)
    run(told(), {"status": "dry-run"}, upto=2)
    assert backend.events == []


def test_a_backend_that_does_not_answer_holds_nothing_up(told: Callable[..., Any], backend: Backend) -> None:
    """Sixty seconds is how long it would take; the job file gives it a tenth of one."""
    backend.hold.clear()
    this = told()
    section = this.job.reporting.model_validate({"openlineage": {"timeout": "100ms"}})
    this.job = this.job.model_copy(update={"reporting": section})
    began = time.monotonic()
    document = run(this)
    assert time.monotonic() - began < 30
    assert document["notes"] == ["lineage events could not be sent: the backend took longer than 0.1 s"]


def test_a_backend_that_is_away_is_a_note(told: Callable[..., Any], backend: Backend, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__TYPE", "http")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__URL", "http://127.0.0.1:1")
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__RETRY", '{"total": 0}')
    [note] = run(told())["notes"]
    assert note.startswith("lineage events could not be sent: ")


def test_events_go_to_a_file_as_the_client_is_told(
    told: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = tmp_path / "events.ndjson"
    config = tmp_path / "openlineage.yml"
    config.write_text(f"transport: {{type: file, log_file_path: {events}, append: true}}\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    run(told())
    lines = [json.loads(line) for line in events.read_text().splitlines()]
    assert [line["eventType"] for line in lines] == ["START", "RUNNING", "COMPLETE"]


def test_without_a_configuration_nothing_is_sent_and_nothing_imported(
    told: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert not configured({})
    assert configured({"OPENLINEAGE_URL": "http://x"})
    assert not configured({"OPENLINEAGE_URL": "http://x", "OPENLINEAGE_DISABLED": "true"})
    before = [thread.name for thread in threading.enumerate()].count("kseg-lineage")
    reporter = Reporter(ReportOptions(), "ingest")
    reporter.event(JobOpened(told().job, None))
    assert [thread.name for thread in threading.enumerate()].count("kseg-lineage") <= before
    (tmp_path / "openlineage.yml").write_text("transport: {type: noop}\n")
    assert configured({})


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_has_no_configuration_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each run ended with a RuntimeError."""
    monkeypatch.chdir(tmp_path)
    assert not configured({})
    (tmp_path / "openlineage.yml").write_text("transport: {type: noop}\n")
    assert configured({})


@pytest.mark.parametrize(
    ("path", "namespace", "name"),
    [
        ("/lake/orders", "file", "/lake/orders"),
        ("file:///lake/orders", "file", "/lake/orders"),
        ("s3://bucket/lake/orders", "s3://bucket", "lake/orders"),
        ("s3a://bucket/lake/orders/", "s3://bucket", "lake/orders"),
        ("gs://bucket/lake/orders", "gs://bucket", "lake/orders"),
        ("abfss://c@a.dfs.core.windows.net/lake", "abfss://c@a.dfs.core.windows.net", "/lake"),
        ("hdfs://namenode:8020/lake", "hdfs://namenode:8020", "/lake"),
    ],
)
def test_tables_are_named_by_the_specification(path: str, namespace: str, name: str) -> None:
    assert dataset_of_path(path) == (namespace, name)


def test_topics_are_named_by_the_first_server() -> None:
    assert dataset_of_topic("b1:9092, b2:9092", "orders") == ("kafka://b1:9092", "orders")


def test_an_id_that_is_no_uuid_leads_to_one_always_the_same() -> None:
    assert run_uuid("b" * 64) == run_uuid("b" * 64)
    assert run_uuid("b" * 64) != run_uuid("c" * 64)
    assert run_uuid("3f9c46bd0e0b4b0aa4d3c1a5f00d7e11").hex == "3f9c46bd0e0b4b0aa4d3c1a5f00d7e11"


def test_the_documentation_lists_every_facet() -> None:
    section = PAGE.read_text().partition("## OpenLineage")[2]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|$", section, re.MULTILINE))
    assert {name: words for name, words in rows.items() if not name.isupper()} == FACETS
