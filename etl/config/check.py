"""Job files checked without a broker, table or ledger: the faults of all of them, and what two may not share."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError, Diagnostic

_IN_CLEAR = ("PLAIN", "OAUTHBEARER")  # mechanisms that send the secret itself


@dataclass(slots=True)
class CheckedFile:
    """One file: the job where it is sound, else its faults. warnings: also of its transform, where Spark checked it."""

    file: str
    job: Job | None = None
    faults: list[Diagnostic] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.faults

    def to_json(self) -> dict[str, Any]:
        airflow = self.job.airflow if self.job is not None else None
        return {
            "file": self.file,
            "job": self.job.name if self.job is not None else None,
            "ok": self.ok,
            "faults": [asdict(fault) for fault in self.faults],
            "warnings": list(self.warnings),
            "airflow": airflow.model_dump(mode="json") if airflow is not None else None,
        }


def check_files(
    files: Iterable[str], *, env: Mapping[str, str] = os.environ, kafka: Mapping[str, str] | None = None
) -> list[CheckedFile]:
    """Each file by itself, and then what may not be the same in two of them. env, kafka: as for `load_job`."""
    checked = [_check(file, env, kafka) for file in files]
    _find_twins(checked)
    return checked


def _check(file: str, env: Mapping[str, str], kafka: Mapping[str, str] | None) -> CheckedFile:
    try:
        job = load_job(file, env=env, kafka=kafka)
        return CheckedFile(file, job, warnings=_warnings(job))
    except ConfigurationError as error:
        return CheckedFile(file, faults=list(error.faults))


def _warnings(job: Job) -> list[str]:
    kafka = {key: text.strip().upper() for key, text in (job.kafka or {}).items()}
    if kafka.get("security.protocol") == "SASL_PLAINTEXT" and kafka.get("sasl.mechanism", "GSSAPI") in _IN_CLEAR:
        return [
            f"kafka: {kafka['sasl.mechanism']} without TLS sends the secret in clear: set security.protocol to SASL_SSL"
        ]
    return []


def _find_twins(checked: Iterable[CheckedFile]) -> None:
    jobs: dict[tuple[str, str], str] = {}
    dags: dict[str, str] = {}
    for one in checked:
        if one.job is None:
            continue
        first = jobs.setdefault((one.job.ledger, one.job.name), one.file)
        if first != one.file:
            remedy = "two job files describe one job: give this one another name or another ledger"
            one.faults.append(Diagnostic("name", f"{one.job.name} in this ledger is the job of {first}", remedy))
        if one.job.airflow is not None:
            dag = one.job.airflow.dag_id or one.job.name
            first = dags.setdefault(dag, one.file)
            if first != one.file:
                remedy = "give `airflow.dag_id` another value: Airflow shows only one of two DAGs with the same id"
                one.faults.append(Diagnostic("airflow.dag_id", f"{dag} is the DAG of {first}", remedy))
