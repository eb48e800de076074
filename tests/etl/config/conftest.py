"""Job files for the tests: a small sound one, changed key by key."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.errors import ConfigurationError, Diagnostic

SOUND: dict[str, Any] = {
    "version": 1,
    "name": "orders",
    "kafka": {"bootstrap.servers": "localhost:9092"},
    "source": {"topics": ["orders"]},
    "sink": {"path": "./lake/orders"},
    "ledger": "./lake/_kseg_ledger",
}


def changed(document: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The document with values set by dotted path; `...` deletes."""
    document = copy.deepcopy(document)
    for path, value in changes.items():
        *parents, last = path.split("/") if isinstance(path, str) else [path]
        holder = document
        for parent in parents:
            holder = holder.setdefault(parent, {})
        if value is ...:
            holder.pop(last, None)
        else:
            holder[last] = copy.deepcopy(value)
    return document


@pytest.fixture
def job_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a job file: plain text, or the sound one with changes by path (`{"source/topics": []}`; `...` deletes)."""

    def write(changes: Mapping[str, Any] | str = {}) -> Path:
        text = changes if isinstance(changes, str) else yaml.safe_dump(changed(SOUND, changes), sort_keys=False)
        file = tmp_path / "job.yaml"
        file.write_text(text)
        return file

    return write


@pytest.fixture
def load(job_file: Callable[..., Path]) -> Callable[..., Job]:
    """Loads the sound job with changes."""

    def do(changes: Mapping[str, Any] | str = {}, env: Mapping[str, str] = {}) -> Job:
        return load_job(job_file(changes), env=env)

    return do


@pytest.fixture
def faults(job_file: Callable[..., Path]) -> Callable[..., list[Diagnostic]]:
    """The faults of the sound job with changes."""

    def do(changes: Mapping[str, Any] | str, env: Mapping[str, str] = {}) -> list[Diagnostic]:
        with pytest.raises(ConfigurationError) as caught:
            load_job(job_file(changes), env=env)
        return list(caught.value.faults)

    return do
