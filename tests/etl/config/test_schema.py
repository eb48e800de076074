"""The job file's JSON Schema: it accepts every job file that loads, and rejects what an editor should mark."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from kseg.etl.config.job import Job
from kseg.etl.config.schema import job_schema, job_schema_text
from kseg.etl.errors import ConfigurationError

ROOT = Path(__file__).parents[3]
SCHEMA = job_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def as_json(value: Any) -> Any:
    """A document as an editor has it: keys are text, and times are text too."""
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, list):
        return [as_json(part) for part in value]
    return value.isoformat() if isinstance(value, date) else value


def places(text: str) -> set[str]:
    """Where the schema rejects something in a job file."""
    return {"/".join(map(str, error.absolute_path)) for error in VALIDATOR.iter_errors(as_json(yaml.safe_load(text)))}


def job_files() -> Iterator[tuple[str, str]]:
    """All job files of the repository, and those that stand in pages as blocks."""
    for folder in ("airflow/dags", "tests"):
        for path in sorted((ROOT / folder).rglob("*.yaml")):
            if re.search(r"^version: 1$", path.read_text(), re.MULTILINE):
                yield str(path.relative_to(ROOT)), path.read_text()
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        blocks = re.findall(
            r"(?:^    .*\n|^\n(?=    ))+|^```yaml[^\n]*\n(?:.*\n)*?(?=```)", page.read_text(), re.MULTILINE
        )
        for number, block in enumerate(blocks):
            text = textwrap.dedent(re.sub(r"^```.*\n", "", block)).lstrip()
            if text.startswith(("version: 1", "# yaml-language-server")):
                yield f"{page.relative_to(ROOT)}:{number}", text


FILES = dict(job_files())


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert len(FILES) > 18


@pytest.mark.parametrize("name", FILES)
def test_every_job_file_of_ours_is_accepted(name: str) -> None:
    assert places(FILES[name]) == set()


ACCEPTED: list[dict[str, Any]] = [
    {"transform": None, "group": None, "source/isolation_level": None, "run": {"lease": None}},
    {"source/isolation_level": "${LEVEL}", "run/lease": "${LEASE}", "name": "${NAME}", "source/topics": ["${TOPIC}"]},
    {"kafka/ssl": {"keystore": {"location": "/k"}}, "kafka/fetch.max.wait.ms": 5, "kafka/check.crcs": True},
    {"source/segments": "/logs", "source/starting_offsets": {"timestamp": "2026-01-01 00:00:00+01:00"}},
    {"source/segments": ["/a", "s3://b/c"], "source/starting_offsets": {"orders": {0: 5, "1": 6}}},
    {"source/segments": {"paths": ["/a"], "layout": "aiven", "options": {"region": "eu"}}},
    {"sink": {"routes": {"*": {"path": "/lake/{topic}"}, "orders": {"table": "a.b"}}}},
    {"source": {"assign": {"orders": [0, 1]}}},
    {"run": {"lease": "1h 30m", "deadline": "1.5h"}},
    {"airflow": {"schedule": "0 6 * * 1-5"}},
    {
        "airflow": {
            "schedule": {"assets": ["/lake/a"]},
            "execution": {"submit": "livy", "submit_options": {"file": "/f"}},
        }
    },
    {"spark/conf": {"spark.executor": {"memory": "2g"}}, "spark/executor_secrets": "resolved"},
]

REJECTED: list[tuple[dict[str, Any], str]] = [
    ({"sorce": {}}, ""),
    ({"version": 2}, "version"),
    ({"name": ...}, ""),
    ({"name": 5}, "name"),
    ({"ledger": ...}, ""),
    ({"source/topics": "orders"}, "source/topics"),
    ({"source/topics": []}, "source/topics"),
    ({"source/pattern": "^o"}, "source"),
    ({"source/isolation_level": "read_comitted"}, "source/isolation_level"),
    ({"source/max_records_per_task": "many"}, "source/max_records_per_task"),
    ({"source/starting_offsets": {"orders": {"a": 1}}}, "source/starting_offsets"),
    ({"source/starting_offsets": {"timestamp": "2026-01-01"}}, "source/starting_offsets"),
    ({"sink/table": "a.b"}, "sink"),
    ({"sink/colour": "red"}, "sink"),
    ({"sink/routes": {"orders": {}}, "sink/path": ...}, "sink/routes"),
    ({"transform": [{"sqll": "x"}]}, "transform"),
    ({"transform": [{"sql": "SELECT 1"}]}, "transform"),
    ({"transform": [{"arrow": "m:f", "sql": "SELECT * FROM __rows__"}]}, "transform"),
    ({"run/lease": 120}, "run/lease"),
    ({"run/lease": "2 minutes"}, "run/lease"),
    ({"airflow/mode": "both"}, "airflow/mode"),
    ({"airflow/mode": "${MODE}"}, "airflow/mode"),
    ({"airflow/retries": "3"}, "airflow/retries"),
    ({"airflow/schedule": "sometimes"}, "airflow/schedule"),
    ({"group_commit": "always"}, "group_commit"),
]


@pytest.mark.parametrize("changes", ACCEPTED)
def test_all_forms_of_a_value_are_accepted(changes: dict[str, Any], job_file: Callable[..., Path]) -> None:
    assert places(job_file(changes).read_text()) == set()


@pytest.mark.parametrize(("changes", "place"), REJECTED)
def test_typical_mistakes_are_rejected_in_their_place(
    changes: dict[str, Any], place: str, job_file: Callable[..., Path], load: Callable[..., Job]
) -> None:
    found = places(job_file(changes).read_text())
    # A choice of several forms is rejected as a whole; some editors mark the form that comes nearest.
    assert any(place == where or place.startswith(f"{where}/") for where in found)
    with pytest.raises(ConfigurationError):
        load(changes)


def test_defaults_are_spelled_as_in_a_job_file() -> None:
    defaults = {key: part.get("default") for key, part in SCHEMA["$defs"]["Run"]["properties"].items()}
    assert defaults == {
        "lease": "2m",
        "deadline": "1h",
        "max_records": None,
        "max_bytes": None,
        "engine": "spark",
        "local_below": 64_000_000,
        "task_attempts": 4,
    }


def test_the_copy_for_airflow_is_the_same() -> None:
    copy = (ROOT / "airflow" / "kseg_airflow" / "job_schema.json").read_text()
    assert copy == job_schema_text(), "stale: kseg check --schema > airflow/kseg_airflow/job_schema.json"
    assert json.loads(copy) == SCHEMA
