"""Many job files at once: each file's faults, and what two files may not share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from kseg.etl.config.check import check_files

JOB: dict[str, Any] = {
    "version": 1,
    "name": "orders",
    "kafka": {"bootstrap.servers": "localhost:9092"},
    "source": {"topics": ["orders"]},
    "sink": {"path": "./lake/orders"},
    "ledger": "./lake/_kseg_ledger",
}


def write(folder: Path, file_name: str, **changes: Any) -> str:
    file = folder / file_name
    file.write_text(yaml.safe_dump({**JOB, **changes}))
    return str(file)


def test_the_faults_of_every_file_are_told(tmp_path: Path) -> None:
    files = [
        write(tmp_path, "a.yaml", airflow={"schedule": "@daily"}),
        write(tmp_path, "b.yaml", name="b", version=2, sink={}),
        str(tmp_path / "none.yaml"),
    ]
    sound, faulty, missing = check_files(files, env={})
    assert sound.ok
    assert [fault.path for fault in faulty.faults] == ["sink", "version"]
    assert "cannot be read" in missing.faults[0].message
    shown = sound.to_json()
    assert (shown["job"], shown["airflow"]["schedule"], shown["airflow"]["retry_delay"]) == ("orders", "@daily", "300s")
    assert faulty.to_json()["airflow"] is None


def test_two_files_of_one_job_or_one_dag_are_told(tmp_path: Path) -> None:
    files = [
        write(tmp_path, "a.yaml", airflow={}),
        write(tmp_path, "b.yaml"),
        write(tmp_path, "c.yaml", name="c", airflow={"dag_id": "orders"}),
        write(tmp_path, "d.yaml", ledger="./elsewhere/ledger"),
    ]
    checked = check_files(files, env={})
    assert [[fault.path for fault in one.faults] for one in checked] == [[], ["name"], ["airflow.dag_id"], []]
    assert all("a.yaml" in fault.message for one in checked for fault in one.faults)


def test_a_secret_that_would_be_sent_in_clear_is_warned_of(tmp_path: Path) -> None:
    def warnings(protocol: str, mechanism: str) -> list[str]:
        kafka = {
            "bootstrap.servers": "localhost:9092",
            "security.protocol": protocol,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": "${JAAS}",
        }
        module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
        jaas = f'org.apache.kafka.common.security.{module}LoginModule required username="u" password="pw-4711";'
        [checked] = check_files([write(tmp_path, "a.yaml", kafka=kafka)], env={"JAAS": jaas})
        assert checked.ok, checked.faults
        return checked.warnings

    [warning] = warnings("SASL_PLAINTEXT", "PLAIN")
    assert warning == "kafka: PLAIN without TLS sends the secret in clear: set security.protocol to SASL_SSL"
    assert warnings("SASL_SSL", "PLAIN") == []
    assert warnings("SASL_PLAINTEXT", "SCRAM-SHA-512") == []
