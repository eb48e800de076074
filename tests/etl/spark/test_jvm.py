"""Runs that need no Spark SQL start a light JVM, from an archive of its classes where there is one that fits."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.spark import class_archive, jvm
from skips import full_scale_only

COUNT = """
from kseg.etl.spark.jvm import light_options
from kseg.etl.spark.session import local_context
context = local_context("test", "local[1]", {}, light_options())
print("sum", context.range(10, numSlices=2).sum())
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("KSEG_CACHE", str(tmp_path))
    monkeypatch.setenv("SPARK_SUBMIT_OPTS", " ".join(jvm.LIGHT))  # else from the archive that `make setup` has made
    return tmp_path


def count_in_spark() -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", COUNT], capture_output=True, text=True, timeout=400, check=False)


def test_without_an_archive_only_the_compiler_and_the_collector_are_light(cache: Path) -> None:
    assert jvm.light_options() == [
        "-XX:TieredStopAtLevel=1",
        "-XX:+UseSerialGC",
        "-XX:ReservedCodeCacheSize=240m",
    ]


def test_another_java_has_another_archive(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = jvm.archive_path()
    monkeypatch.setenv("JAVA_HOME", "/elsewhere")
    assert jvm.archive_path() != first
    assert jvm.archive_path().parent == cache / "jvm"


@pytest.mark.parametrize("whole", [True, False], ids=["the folder", "what is in it"])
def test_an_environment_that_is_reached_by_a_link_has_the_same_archive(
    whole: bool, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = jvm.archive_path()
    link = cache / "site-packages"
    packages = Path(str(metadata.distribution("pyspark").locate_file("")))
    if whole:
        link.symlink_to(packages)
    else:
        link.mkdir()
        for entry in packages.glob("pyspark*"):
            (link / entry.name).symlink_to(entry)
    [linked] = metadata.distributions(name="pyspark", path=[str(link)])
    monkeypatch.setattr(jvm.metadata, "distribution", lambda _: linked)
    assert str(link) in str(linked.locate_file(""))
    assert jvm.archive_path() == first


def test_spark_that_is_installed_anew_has_another_archive(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = cache / "pyspark" / "jars" / "spark.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(b"spark")
    (cache / "pyspark-4.2.0.dist-info").mkdir()
    (cache / "pyspark-4.2.0.dist-info" / "METADATA").write_text("Name: pyspark\nVersion: 4.2.0\n")
    [found] = metadata.distributions(name="pyspark", path=[str(cache)])
    monkeypatch.setattr(jvm.metadata, "distribution", lambda _: found)
    first = jvm.archive_path()
    os.utime(jar, (1, 1))
    second = jvm.archive_path()
    jar.write_bytes(b"Spark 2")
    os.utime(jar, (1, 1.5))
    third = jvm.archive_path()
    assert len({first, second, third}) == 3
    os.utime(jar, (1, 1))  # of a time Java sees whole seconds
    assert jvm.archive_path() == third


@pytest.mark.spark
def test_the_tests_spark_runs_from_the_archive_of_make_setup(spark: Any) -> None:
    assert jvm.archive_path().exists(), "make setup"
    assert str(jvm.archive_path()) in Path(f"/proc/{spark.sparkContext._gateway.proc.pid}/maps").read_text()


@pytest.mark.spark
@full_scale_only
def test_a_context_starts_from_the_archive_that_was_made(cache: Path) -> None:
    path = jvm.archive_path()
    path.parent.mkdir()
    _, version, place, _ = path.stem.split("-")
    before = [f"spark-{version}-{place}.jsa", f"spark-3.9.9-{place}-00000000.jsa"]
    other = f"spark-{version}-00000000-00000000.jsa"
    for name in (*before, other):
        path.with_name(name).write_bytes(b"")
    made = class_archive.make_archive()
    assert {path.name for path in (cache / "jvm").iterdir()} == {made.name, other}
    assert f"-XX:SharedArchiveFile={made}" in jvm.light_options()
    told = count_in_spark()
    assert told.stdout == "sum 45\n", told.stderr


@pytest.mark.spark
def test_an_archive_that_does_not_fit_is_passed_over_in_silence(cache: Path) -> None:
    path = jvm.archive_path()
    path.parent.mkdir()
    path.write_bytes(b"of another Java")
    told = count_in_spark()
    assert (told.returncode, told.stdout) == (0, "sum 45\n"), told.stderr
    assert "archive" not in told.stderr.lower()


def test_what_java_cannot_read_is_not_kept(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if the disk had been full: a file is there, and it is none.
    monkeypatch.setattr(class_archive, "_START_AND_END", "import os; open(os.environ['KSEG_ARCHIVE'], 'w')")
    monkeypatch.setattr(class_archive, "java_program", lambda: "/bin/false")
    with pytest.raises(subprocess.CalledProcessError):
        class_archive.make_archive()
    assert list((cache / "jvm").iterdir()) == []
