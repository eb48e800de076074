"""A broker takes its classes from an archive where there is one that fits."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kseg.jobs.broker import class_archive, jars, shared_classes
from kseg.jobs.broker.java import find_java
from kseg.jobs.broker.process import EmbeddedKafka
from skips import full_scale_only


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with Kafka's jars, and without an archive."""
    folder = jars.ensure(jars.KAFKA)
    cache = tmp_path / "cache"
    (cache / "jars").mkdir(parents=True)
    (cache / "jars" / folder.name).symlink_to(folder)
    monkeypatch.setenv("KSEG_CACHE", str(cache))
    return cache


@pytest.mark.broker
def test_the_tests_broker_runs_from_the_archive_of_make_setup(kafka: Any) -> None:
    archive = shared_classes.archive_path(find_java())
    assert archive.exists(), "make setup"
    assert str(archive) in Path(f"/proc/{kafka.broker.pids[1]}/maps").read_text()


@pytest.mark.broker
@full_scale_only
def test_a_broker_starts_from_the_archive_that_was_made(cache: Path, tmp_path: Path) -> None:
    assert shared_classes.archive_options(find_java()) == []
    made = class_archive.make_archive()
    assert [path.name for path in (cache / "jvm").iterdir()] == [made.name]
    with EmbeddedKafka(tmp_path / "broker", light=True) as broker:
        assert str(made) in Path(f"/proc/{broker.pids[1]}/maps").read_text()


def test_an_archive_that_does_not_fit_is_passed_over_in_silence(cache: Path) -> None:
    path = shared_classes.archive_path(find_java())
    path.parent.mkdir()
    path.write_bytes(b"of another Java")
    command = [find_java().command, *shared_classes.archive_options(find_java()), "-version"]
    told = subprocess.run(command, check=True, capture_output=True, text=True)
    assert "archive" not in (told.stdout + told.stderr).lower()
