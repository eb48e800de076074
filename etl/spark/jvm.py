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
import zlib
from importlib import metadata
from pathlib import Path

from kseg.etl.spark.cache import cache_root

LIGHT = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:ReservedCodeCacheSize=240m")
"""The code cache gets the size that it has with a full compiler. With a light one Java reserves 48 MB, and a session
that goes on with statements of Spark SQL and Delta needs more: it drops code that it has to compile again."""

QUIET = ("-Xlog:disable", "-Xlog:all=error:stderr")


def options() -> list[str]:
    """Options for the driver's JVM of any run: its classes come from the archive, where there is one."""
    archive = archive_path()
    return [f"-XX:SharedArchiveFile={archive}", *QUIET] if archive.exists() else []


def light_options() -> list[str]:
    """Options for the driver's JVM of a run that needs no Spark SQL."""
    return [*LIGHT, *options()]


def archive_path() -> Path:
    """The path of the archive of this Spark's classes for this Java, which need not exist. It is named by what Java
    compares, so that Spark installed anew in the same place has an archive of its own (`archives_of_place`)."""
    packages = _packages()
    files = [Path(os.path.realpath(java_program())), *sorted(Path(packages, "pyspark", "jars").glob("*.jar"))]
    state = " ".join(f"{file.name} {_size_and_time(file)}" for file in files)
    name = f"spark-{metadata.version('pyspark')}-{_place()}-{zlib.crc32(state.encode()):08x}.jsa"
    return cache_root() / "jvm" / name


def archives_of_place() -> list[Path]:
    """The archives of this Java and of the Spark that is or was in the place of this one; also of one in another
    container with the same paths, if they share the cache."""
    return [*(cache_root() / "jvm").glob(f"spark-*-{_place()}*.jsa")]


def _place() -> str:
    place = f"{os.path.realpath(java_program())} {_packages()}"
    return f"{zlib.crc32(place.encode()):08x}"


def _packages() -> Path:
    # By whatever links an environment is reached, it is one: Java compares files on its class path, not their names.
    return Path(os.path.realpath(str(metadata.distribution("pyspark").locate_file("pyspark")))).parent


def _size_and_time(file: Path) -> tuple[int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_size, int(found.st_mtime)  # in whole seconds, as Java has it: images keep no more


def java_program() -> str:
    """The Java that pyspark would start."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else shutil.which("java") or "java"
