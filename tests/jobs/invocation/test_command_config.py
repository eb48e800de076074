"""`--command-config`: client properties from outside, over the job file's; their secrets are shown nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kseg.etl.config.load import job_from_document
from kseg.etl.config.load import load_job as load_job_with
from kseg.etl.errors import ConfigurationError
from kseg.jobs.cli import cli
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.job import load_job

JOB = """\
version: 1
name: orders
kafka:
  bootstrap.servers: localhost:9092
  client: {id: mine}
source: {topics: [orders]}
sink: {path: ./lake/orders}
group: orders
ledger: ./lake/_kseg_ledger
"""
WITHOUT_BROKERS = JOB.replace("kafka:\n  bootstrap.servers: localhost:9092\n  client: {id: mine}\n", "")
OVER = {
    "bootstrap.servers": "far:9093",
    "client.id": "airflow-${x}",
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "etl",
    "sasl.password": "hunter2-${NAME}",
}


@pytest.fixture
def job_file(tmp_path: Path) -> Path:
    file = tmp_path / "orders.yaml"
    file.write_text(JOB)
    return file


def test_properties_are_laid_over_those_of_the_file(job_file: Path) -> None:
    job = load_job_with(job_file, kafka=OVER)
    assert dict(job.kafka_properties()) == OVER
    assert job.client_config().bootstrap_servers == (("far", 9093),)


def test_a_job_file_may_leave_brokers_to_it(job_file: Path) -> None:
    job_file.write_text(WITHOUT_BROKERS)
    job = load_job_with(job_file, kafka=OVER)
    assert dict(job.kafka_properties()) == OVER
    assert job.group_commit == "transactional"


def test_no_secret_is_in_the_jobs_repr_or_in_what_its_ledger_keeps(job_file: Path) -> None:
    job = load_job_with(job_file, kafka=OVER)
    kept = json.dumps(job.pinned())
    assert "hunter2" not in repr(job) + repr(job.kafka_properties()) + kept
    assert "${KSEG_COMMAND_CONFIG_SASL_PASSWORD}" in kept
    assert job.config_hash == load_job_with(job_file).config_hash


def test_a_pinned_job_connects_as_the_one_that_is_asked_now(job_file: Path) -> None:
    job = load_job_with(job_file, kafka=OVER)
    pinned = job_from_document({**job.pinned(), "kafka": job.kafka}, env=job.environment())
    assert dict(pinned.kafka_properties()) == OVER


def test_faults_are_told_by_the_keys_name_alone(job_file: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_job_with(job_file, kafka={**OVER, "sasl.mechansim": "hunter2", "group.id": "x"})
    assert {fault.path for fault in caught.value.faults} == {"kafka.sasl.mechansim", "kafka.group.id"}
    assert "hunter2" not in str(caught.value)


def test_commands_read_it_and_never_show_its_secrets(job_file: Path, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("# from elsewhere\nsasl.mechanism=PLAIN\nsasl.password=hunter2\\\n-and-more\nacks=all\n")
    result = CliRunner().invoke(cli, ["plan", str(job_file), "--json", "--command-config", str(properties)])
    assert result.exit_code == 2
    assert [fault["path"] for fault in json.loads(result.stdout)["error"]["faults"]]
    assert "hunter2" not in result.output


def test_a_file_that_is_not_there_is_a_fault(job_file: Path, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.properties")
    result = CliRunner().invoke(cli, ["status", str(job_file), "--json", "--command-config", missing])
    assert result.exit_code == 2
    (fault,) = json.loads(result.stdout)["error"]["faults"]
    assert fault["path"] == "--command-config"
    assert missing in fault["message"]


def test_a_fault_of_the_file_has_its_place_there(job_file: Path, tmp_path: Path) -> None:
    """They had the job file's name, and the line of its section `kafka:`."""
    lines = tmp_path / "o.jsonl"
    lines.write_text('# records\n{"id": 1}\n')
    with pytest.raises(ConfigurationError) as caught:
        load_job(Invocation(command="plan", command_config=str(lines)), str(job_file))
    [fault] = caught.value.faults
    assert (fault.path, fault.line) == (f"--command-config {lines}", 2)
    assert fault.message == '{"id": unknown property'
    assert caught.value.address["file"] == str(lines)
    job_file.write_text(JOB + "groups: x\n")
    with pytest.raises(ConfigurationError) as caught:
        load_job(Invocation(command="plan", command_config=str(lines)), str(job_file))
    assert [fault.path for fault in caught.value.faults] == [f"--command-config {lines}", "groups"]
    assert caught.value.address["file"] == str(job_file)


@pytest.mark.parametrize(
    ("command", "code"),
    [("maintain", 3), ("runs", 3), ("report", 3), ("check", 0), ("doctor", 0), ("schema", 2), ("package", 0)],
)
def test_a_job_file_that_leaves_brokers_to_it_is_no_fault(
    job_file: Path, tmp_path: Path, command: str, code: int
) -> None:
    """These commands had no such option: `kafka: is missing`, and exit code 2."""
    job_file.write_text(WITHOUT_BROKERS)
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers=far:9093\n")
    words = ["--job", str(job_file), "--out", str(tmp_path / "dist")] if command == "package" else [str(job_file)]
    result = CliRunner().invoke(cli, [command, *words, "--json", "--command-config", str(properties)])
    assert "kafka: is missing" not in result.output
    assert "is missing" not in json.dumps(json.loads(result.stdout).get("error", {}).get("faults"))
    assert result.exit_code == code, result.output


def test_check_tells_faults_at_their_place_in_the_properties(job_file: Path, tmp_path: Path) -> None:
    properties = tmp_path / "client.properties"
    properties.write_text("# from elsewhere\nsasl.mechansim=PLAIN\n")
    result = CliRunner().invoke(cli, ["check", str(job_file), "--json", "--command-config", str(properties)])
    assert result.exit_code == 2
    [fault] = json.loads(result.stdout)["files"][0]["faults"]
    assert (fault["path"], fault["line"]) == (f"--command-config {properties}", 2)


def test_the_submit_line_passes_it_on(job_file: Path, tmp_path: Path) -> None:
    """A driver in the cluster finds both files in its working folder."""
    job_file.write_text(WITHOUT_BROKERS)
    properties = tmp_path / "client.properties"
    properties.write_text("bootstrap.servers=far:9093\n")
    words = ["package", "--out", str(tmp_path / "dist"), "--job", str(job_file), "--command-config", str(properties)]
    lines = json.loads(CliRunner().invoke(cli, [*words, "--json"]).stdout)["spark_submit"]
    assert lines["client"][-4:] == ["ingest", str(job_file), "--command-config", str(properties)]
    assert lines["cluster"][-4:] == ["ingest", "orders.yaml", "--command-config", "client.properties"]
    files = lines["cluster"][lines["cluster"].index("--files") + 1].split(",")
    assert files[:2] == [str(job_file), str(properties)]


@pytest.mark.parametrize(
    "command",
    [
        *("ingest", "backfill", "redrive", "verify", "repair", "plan", "status", "interval", "audit"),
        *("maintain", "runs", "report", "check", "doctor", "schema", "package"),
    ],
)
def test_help_tells_of_it(command: str) -> None:
    assert "--command-config FILE" in CliRunner().invoke(cli, [command, "--help"]).output
