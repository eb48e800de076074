"""A JVM that starts fast. Two things halve and halve again what the start of a local Spark costs:

- Classes come from an archive of the JVM's own kind (class data sharing), where one was made (`make setup` does). The
  JVM checks that it fits: another Java, another Spark or a changed jar, and it is passed over in silence. Measured on
  two quiet cores, three small appends to a Delta table by Spark ended after 14 s in place of 31.
- Code is compiled lightly, and collected by the simplest collector, where the JVM does little: Python reads, decodes
  and writes, and no row meets it. Rows that pass through the JVM want better, so a run with SQL or Python steps, or
  with tables that Spark commits to, is compiled as Spark's are by default.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from importlib import metadata
from pathlib import Path
from typing import Any

from kseg.etl.spark.cache import cache_root

LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

_QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")
_START_AND_END = "from kseg.etl.spark.jvm import _start_and_end; _start_and_end()"
_TIMEOUT = 300.0


def options() -> list[str]:
    """Options for the driver's JVM of any run: its classes come from the archive, where there is one."""
    archive = archive_path()
    return [f"-XX:SharedArchiveFile={archive}", *_QUIET] if archive.exists() else []


def light_options() -> list[str]:
    """Options for the driver's JVM of a run that needs no Spark SQL."""
    return [*LIGHT, *options()]


def archive_path() -> Path:
    """Where this Java's classes of this Spark are kept, whether or not they are there yet."""
    spark = metadata.distribution("pyspark")
    # By whatever links an environment is reached, it is one: Java compares files on its class path, not their names.
    place = f"{os.path.realpath(_java())} {os.path.realpath(str(spark.locate_file('')))}"
    return cache_root() / "jvm" / f"spark-{spark.version}-{zlib.crc32(place.encode()):08x}.jsa"


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
        _quietly(_java(), f"-XX:SharedArchiveFile={made}", "-version")
        made.replace(path)  # whole or not at all
    return path


def _java() -> str:
    """The Java that pyspark would start."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"


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

    from kseg.etl.spark.session import local_context

    java = [*LIGHT, f"-XX:ArchiveClassesAtExit={os.environ['KSEG_ARCHIVE']}", *_QUIET]
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
