"""Metrics as Prometheus reads them: by its client's parser, by promtool where there is one, through a gateway."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families

from kseg.client import TopicPartition
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError
from kseg.etl.telemetry.events import PartitionView
from kseg.etl.telemetry.recorder import Recorder
from kseg.jobs.broker.ports import free_ports
from kseg.jobs.cli import cli
from kseg.jobs.report import metrics
from kseg.jobs.report.metrics import METRICS, push, write_file
from kseg.jobs.report.outcome import CommandOutcome

PAGE = Path(__file__).parents[3] / "docs" / "guides" / "reports.md"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def outcome_of(told: Any, *, exit_code: int = 0, command: str = "ingest") -> CommandOutcome:
    listener = Recorder()
    listener.phase("plan")
    for fact in told.facts:
        listener.event(fact)
    error = {"error": {"kind": "Refused", "message": "m", "address": {}}, "exit_code": exit_code}
    return CommandOutcome(command, listener.close(), error if exit_code else told.document, exit_code)


def parsed(text: str) -> Samples:
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        assert family.type == "gauge"
        assert family.documentation
        for sample in family.samples:
            key = sample.name, frozenset(sample.labels.items())
            assert key not in found, "a series is told once"
            found[key] = sample.value
    return found


def value(samples: Samples, name: str, **labels: str) -> float | None:
    wanted = frozenset({"etl_job": "orders", "command": "ingest", **labels}.items())
    return samples.get((name, wanted))


def test_a_file_says_what_the_last_run_did(told: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "node_exporter" / "orders.prom"
    run = told()
    write_file(str(file), outcome_of(run))
    found = parsed(file.read_text())
    assert {name for name, _ in found} == set(METRICS)
    expected = {
        ("kseg_last_run_exit_code",): 0,
        ("kseg_last_run_rows", "table", run.table): 240,
        ("kseg_last_run_offsets", "kind", "aborted"): 30,
        ("kseg_last_run_fetched_bytes",): 30_000,
        ("kseg_last_run_tasks",): 6,
        ("kseg_last_run_task_retries",): 1,
        ("kseg_last_run_throttled_seconds", "broker", "1"): 3.5,
        ("kseg_last_run_requests", "broker", "1", "api", "Fetch"): 14,
        ("kseg_last_run_request_errors", "broker", "1", "api", "Fetch"): 7,
        ("kseg_table_version", "table", run.table): 3,
        ("kseg_topic_lag_offsets", "topic", "orders"): 30,
        ("kseg_partition_lag_offsets", "topic", "orders", "partition", "2"): 10,
        ("kseg_partition_high_watermark_offset", "topic", "orders", "partition", "2"): 120,
        ("kseg_partition_frontier_offset", "topic", "orders", "partition", "2"): 100,
        ("kseg_partition_committed_offset", "topic", "orders", "partition", "2"): 100,
    }
    for (name, *labels), number in expected.items():
        assert value(found, name, **dict(zip(labels[::2], labels[1::2], strict=True))) == number, name
    assert value(found, "kseg_last_run_timestamp_seconds") == pytest.approx(time.time(), abs=3600)
    assert [entry.name for entry in file.parent.iterdir()] == ["orders.prom"], "replaced at once, nothing left beside"


def test_a_failure_leaves_the_last_success_as_it_was(told: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "orders.prom"
    write_file(str(file), outcome_of(told()))
    before = parsed(file.read_text())
    write_file(str(file), outcome_of(told(), exit_code=3))
    after = parsed(file.read_text())
    assert value(after, "kseg_last_run_exit_code") == 3
    name = "kseg_last_success_timestamp_seconds"
    assert value(after, name) == value(before, name)
    now, then = (value(samples, "kseg_last_run_timestamp_seconds") for samples in (after, before))
    assert now is not None
    assert then is not None
    assert now > then


@pytest.mark.parametrize(
    ("broken", "job"),
    [("name: orders\n", "orders"), ("kafka: {sasl.password: '${NO_SUCH_VARIABLE}'}\n", "orders"), ("a: [\n", "")],
)
def test_a_failure_before_the_job_is_known_leaves_the_last_success(
    told: Callable[..., Any], tmp_path: Path, broken: str, job: str
) -> None:
    """It was dropped with all that the file said of the job, so that no alert on its age was raised."""
    file = tmp_path / "orders.prom"
    write_file(str(file), outcome_of(told(), command="backfill"))
    write_file(str(file), outcome_of(told()))
    before = parsed(file.read_text())
    (tmp_path / "broken.yaml").write_text(f"version: 1\nname: orders\n{broken}")
    for _ in range(2):
        words = ["ingest", str(tmp_path / "broken.yaml"), "--metrics-file", str(file)]
        assert CliRunner().invoke(cli, words).exit_code == 2
        after = parsed(file.read_text())
        for command in ("ingest", "backfill"):
            name = "kseg_last_success_timestamp_seconds"
            assert value(after, name, command=command) == value(before, name, command=command) is not None
        assert value(after, "kseg_last_run_exit_code", etl_job=job) == 2
    write_file(str(file), outcome_of(told()))
    assert parsed(file.read_text()).keys() == before.keys()


def test_a_job_without_its_ledger_reports_where_its_file_says(told: Callable[..., Any], tmp_path: Path) -> None:
    job = told().job
    (tmp_path / "ledger").write_text("is no folder")
    text = (tmp_path / "job.yaml").read_text().replace('"${KAFKA_PASSWORD}"', '"${PATH}"')
    (tmp_path / "job.yaml").write_text(text.replace("reporting: {", "reporting: {metrics_file: ./told.prom, "))
    result = CliRunner().invoke(cli, ["ingest", str(tmp_path / "job.yaml")])
    found = parsed((tmp_path / "told.prom").read_text())
    assert value(found, "kseg_last_run_exit_code", etl_job=job.name) == result.exit_code != 0


def test_commands_of_a_job_share_a_file_and_no_other_job_does(told: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "orders.prom"
    file.write_text('kseg_last_run_exit_code{etl_job="other",command="ingest"} 1\n')
    write_file(str(file), outcome_of(told(), exit_code=4, command="backfill"))
    write_file(str(file), outcome_of(told()))
    found = parsed(file.read_text())
    assert value(found, "kseg_last_run_exit_code") == 0
    assert value(found, "kseg_last_run_exit_code", command="backfill") == 4
    assert value(found, "kseg_last_run_exit_code", etl_job="other") is None


def test_a_file_that_is_none_of_ours_is_replaced(told: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "orders.prom"
    file.write_text("{ half of a")
    write_file(str(file), outcome_of(told()))
    assert parsed(file.read_text())


@pytest.mark.parametrize("url", ["s3://lake/orders.prom", "http://gateway:9091"])
def test_a_url_is_no_file(url: str, tmp_path: Path) -> None:
    """It was taken for the name of a folder here."""
    file = tmp_path / "job.yaml"
    text = "version: 1\nname: orders\nkafka: {bootstrap.servers: 'b:9092'}\nsource: {topics: [orders]}\n"
    text += "sink: {path: ./lake}\nledger: ./ledger\n"
    file.write_text(text + f"reporting: {{metrics_file: '{url}'}}\n")
    with pytest.raises(ConfigurationError) as caught:
        load_job(file)
    [fault] = caught.value.faults
    assert (fault.path, fault.message) == (
        "reporting.metrics_file",
        "is a URL, and metrics are written to a local file",
    )
    assert "push_gateway" in str(fault)
    file.write_text(text)
    result = CliRunner().invoke(cli, ["ingest", str(file), "--metrics-file", url])
    assert result.exit_code == 2
    assert "is a URL" in result.stderr
    file.write_text(text + f"reporting: {{metrics_file: 'file://{tmp_path}/orders.prom'}}\n")
    assert load_job(file).reporting.metrics_file == str(tmp_path / "orders.prom")


def test_many_partitions_are_told_by_topic(told: Callable[..., Any], tmp_path: Path) -> None:
    outcome = outcome_of(told())
    for number in range(metrics.MAX_PARTITIONS):
        outcome.telemetry.last[TopicPartition("wide", number)] = PartitionView(0, 10, 10, None, 4)
    file = tmp_path / "orders.prom"
    write_file(str(file), outcome)
    found = parsed(file.read_text())
    assert value(found, "kseg_topic_lag_offsets", topic="wide") == 6 * metrics.MAX_PARTITIONS
    assert not [name for name, _ in found if name.startswith("kseg_partition_")]


def test_names_follow_prometheus_rules() -> None:
    for name, metric in METRICS.items():
        assert re.fullmatch(r"kseg_[a-z_]+", name)
        assert not name.endswith(("_total", "_count", "_sum", "_bucket")), "those are a counter's or a histogram's"
        assert metric.help.endswith(".")
        assert not set(metric.labels) & {"job", "instance"}, "these are the scrape's"


def test_the_documentation_lists_every_metric_with_its_labels() -> None:
    rows = dict(re.findall(r"^\| `(kseg_\w+)` \| ([^|]*) \|", PAGE.read_text(), re.MULTILINE))
    assert set(rows) == set(METRICS)
    for name, labels in rows.items():
        assert tuple(re.findall(r"`(\w+)`", labels)) == METRICS[name].labels, name


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt install prometheus)"
)
def test_promtool_finds_nothing_to_mend(told: Callable[..., Any], tmp_path: Path) -> None:
    file = tmp_path / "orders.prom"
    write_file(str(file), outcome_of(told()))
    with file.open() as text:
        done = subprocess.run(["promtool", "check", "metrics"], stdin=text, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


class Gateway(BaseHTTPRequestHandler):
    """Takes what is pushed."""

    seen: list[tuple[str, str, dict[str, str], str]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.seen.append((self.command, self.path, dict(self.headers), body))
        self.send_response(202)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gateway() -> Iterator[tuple[str, list[tuple[str, str, dict[str, str], str]]]]:
    handler = type("Handler", (Gateway,), {"seen": []})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler.seen  # type: ignore[attr-defined]
        server.shutdown()
        thread.join()


def test_a_push_is_a_post_to_the_jobs_group(told: Callable[..., Any], gateway: Any, monkeypatch: Any) -> None:
    url, seen = gateway
    push(url, outcome_of(told()))
    monkeypatch.setenv("KSEG_PUSH_GATEWAY_USER", "etl")
    monkeypatch.setenv("KSEG_PUSH_GATEWAY_PASSWORD", "pw")
    push(url, outcome_of(told(), exit_code=1))
    (method, path, _, body), (_, _, headers, failed) = seen
    assert method == "POST", "PUT would drop the last success"
    parts = path.strip("/").split("/")
    assert parts[:3] == ["metrics", "job", "kseg"]
    assert dict(zip(parts[3::2], parts[4::2], strict=True)) == {"etl_job": "orders", "command": "ingest"}
    assert value(parsed(body), "kseg_last_run_exit_code") == 0
    assert value(parsed(failed), "kseg_last_run_exit_code") == 1
    assert "kseg_last_success_timestamp_seconds" not in failed
    assert headers["Authorization"] == f"Basic {base64.b64encode(b'etl:pw').decode()}"


GATEWAY = shutil.which("prometheus-pushgateway") or shutil.which("pushgateway")
PROMETHEUS = shutil.which("prometheus")
without_gateway = pytest.mark.skipif(
    GATEWAY is None, reason="no Pushgateway is installed (Debian: apt install prometheus-pushgateway)"
)


@contextmanager
def serving(*command: str, directory: Path) -> Iterator[str]:
    """One of Prometheus' servers on a port of its own, from its being ready until the end; its URL."""
    [port] = free_ports(1)
    words = [*command, f"--web.listen-address=127.0.0.1:{port}"]
    with subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            url = f"http://127.0.0.1:{port}"
            wait_for(lambda: process.poll() is not None or ready(url))
            assert process.poll() is None, command
            yield url
        finally:
            process.terminate()


def ready(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/-/ready", timeout=5).close()
    except OSError:
        return False
    return True


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@without_gateway
def test_a_real_gateway_keeps_the_last_success(told: Callable[..., Any], tmp_path: Path) -> None:
    assert GATEWAY is not None
    with serving(GATEWAY, directory=tmp_path) as url:
        push(url, outcome_of(told()))
        push(url, outcome_of(told(), exit_code=3))
        with urllib.request.urlopen(f"{url}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    kept = {line.partition("{")[0]: line for line in text.splitlines() if line.startswith("kseg_last_")}
    assert kept["kseg_last_run_exit_code"].endswith(" 3")
    assert 'etl_job="orders"' in kept["kseg_last_success_timestamp_seconds"]


@without_gateway
@pytest.mark.skipif(PROMETHEUS is None, reason="no Prometheus is installed (Debian: apt install prometheus)")
def test_a_real_server_scrapes_them_and_raises_the_alerts_of_the_page(told: Callable[..., Any], tmp_path: Path) -> None:
    assert GATEWAY is not None
    assert PROMETHEUS is not None
    blocks = {block.split(":", 1)[0]: block for block in re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)}
    rules, scrape = (yaml.safe_load(blocks[name]) for name in ("- alert", "scrape_configs"))
    assert [rule["alert"] for rule in rules] == ["KsegJobIsLate", "KsegJobFailed"]
    (tmp_path / "rules.yml").write_text(json.dumps({"groups": [{"name": "kseg", "rules": rules}]}))

    with serving(GATEWAY, directory=tmp_path) as gateway:
        scrape["scrape_configs"][0]["static_configs"] = [{"targets": [gateway.removeprefix("http://")]}]
        quickly = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (tmp_path / "prometheus.yml").write_text(
            json.dumps({"global": quickly, "rule_files": ["rules.yml"], **scrape})  # JSON is YAML
        )
        push(gateway, outcome_of(told()))
        push(gateway, outcome_of(told(), exit_code=3))
        options = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"]
        with serving(PROMETHEUS, *options, directory=tmp_path) as server:

            def asked(path: str) -> Any:
                with urllib.request.urlopen(f"{server}/api/v1/{path}", timeout=10) as answer:
                    return json.load(answer)["data"]

            wait_for(lambda: bool(asked("alerts")["alerts"]))
            [alert] = asked("alerts")["alerts"]
            found = asked("query?query=kseg_last_run_rows")["result"]
    assert (alert["state"], alert["labels"]["alertname"]) == ("firing", "KsegJobFailed")
    whose = {"job": "kseg", "etl_job": "orders", "command": "ingest"}
    assert alert["labels"].items() >= whose.items()
    assert [series["metric"].items() >= whose.items() for series in found] == [True]
