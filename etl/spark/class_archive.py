"""Makes the archive of classes from which a JVM starts fast (`etl.spark.jvm`): once for a machine, by `make setup`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from kseg.etl.spark.jvm import LIGHT, QUIET, archive_path, archives_of_place, java_program
from kseg.etl.spark.session import local_context

_START_AND_END = "from kseg.etl.spark.class_archive import _start_and_end; _start_and_end()"
_TIMEOUT = 300.0


def make_archive() -> Path:
    """Start Spark, write and read a small table in it, and keep the classes that it loaded: 170 MB, once.

    Raises subprocess.SubprocessError or OSError where that does not work; runs then start without it.
    """
    path = archive_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        made = Path(scratch, path.name)
        _quietly(sys.executable, "-c", _START_AND_END, KSEG_ARCHIVE=str(made))
        # Java believes an archive whose head is in order: one that a full disk has cut off would end every run.
        _quietly(java_program(), f"-XX:SharedArchiveFile={made}", "-version")
        made.replace(path)  # whole or not at all
    for other in archives_of_place():
        if other != path:
            other.unlink(missing_ok=True)  # a JVM that runs from it has it open
    return path


def _quietly(*command: str, **environ: str) -> None:
    nowhere = subprocess.DEVNULL
    subprocess.run(
        command, check=True, env=os.environ | environ, stdin=nowhere, stdout=nowhere, stderr=nowhere, timeout=_TIMEOUT
    )


def _start_and_end() -> None:
    """In a process of its own: a run in small, whose JVM leaves the archive behind when it ends.

    The JVM takes it where the class path begins as this one's: Delta's jars, which a session is given as `spark.jars`,
    are not part of it.
    """
    from pyspark.sql import SparkSession

    java = [*LIGHT, f"-XX:ArchiveClassesAtExit={os.environ['KSEG_ARCHIVE']}", *QUIET]
    context = local_context("kseg setup", "local[2]", {}, java)
    context.range(2, numSlices=2).mapPartitions(list).collect()
    session = SparkSession(context)
    with tempfile.TemporaryDirectory() as folder:
        session.range(2).selectExpr("id", "CAST(id AS STRING) AS text").write.parquet(f"{folder}/table")
        session.read.parquet(f"{folder}/table").groupBy("text").count().collect()
    gateway: Any = context._gateway
    context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends with it, and writes the archive first
    gateway.proc.wait(_TIMEOUT)
