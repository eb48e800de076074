"""Workers are forked from a daemon that has loaded what tasks need, with the installed pyspark and not its zip file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kseg.etl.spark.worker_daemon import prefer_installed

IN_A_WORKER = """
import sys
from kseg.etl.spark.session import local_context
def look(_):
    import pyspark
    wanted = ("kseg.etl.tasks.writing", "kseg.segment_reader.decode.kernel")
    loaded = [name for name in wanted if name in sys.modules]
    return [(pyspark.__file__, loaded)]
context = local_context("test", "local[2]", {}, ["-XX:TieredStopAtLevel=1"])
for file, loaded in context.range(2, numSlices=2).mapPartitions(look).collect():
    print(file, *loaded)
"""


@pytest.mark.spark
def test_a_worker_begins_with_everything_loaded() -> None:
    told = subprocess.run([sys.executable, "-c", IN_A_WORKER], capture_output=True, text=True, timeout=400, check=True)
    lines = [line.split() for line in told.stdout.splitlines()]
    assert [loaded for _, *loaded in lines] == [["kseg.etl.tasks.writing", "kseg.segment_reader.decode.kernel"]] * 2
    assert all(file.endswith("site-packages/pyspark/__init__.py") for file, *_ in lines)


def test_archives_stay_where_pyspark_is_not_installed_beside_them(tmp_path: Path) -> None:
    folder = tmp_path / "pyspark"
    archives = [str(folder / "python" / "lib" / name) for name in ("pyspark.zip", "py4j-src.zip")]
    kept = ["", *archives, str(tmp_path), "/else"]
    path = [*kept]
    prefer_installed(path)
    assert path == kept
    folder.mkdir()
    (folder / "__init__.py").touch()
    (tmp_path / "py4j").mkdir()
    prefer_installed(path)
    assert path == ["", str(tmp_path), "/else"]


def test_an_installation_may_be_named_by_a_link(tmp_path: Path) -> None:
    site = tmp_path / "venv-2" / "site-packages"
    for package in ("pyspark", "py4j"):
        (site / package).mkdir(parents=True)
        (site / package / "__init__.py").touch()
    (tmp_path / "venv").symlink_to(tmp_path / "venv-2")
    named = str(tmp_path / "venv" / "site-packages")
    path = ["", str(site / "pyspark" / "python" / "lib" / "pyspark.zip"), named]
    prefer_installed(path)
    assert path == ["", named]
