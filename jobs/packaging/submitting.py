"""The spark-submit line that goes with what was packed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

DeployMode = Literal["client", "cluster"]

ENVIRONMENT = "environment"
"""The folder, in each executor's own, into which Spark unpacks the archive."""

_LOGGING: Final = "-Dlog4j2.configurationFile"


@dataclass(frozen=True, slots=True)
class Packed:
    """The files that were written.

    py_files: zip files in the path's order. jars: what Spark itself needs for Delta tables. logging: a configuration of
    the driver's log, without which Spark writes hundreds of INFO lines there.
    """

    entry: Path
    py_files: tuple[Path, ...]
    archive: Path | None = None
    jars: tuple[Path, ...] = ()
    logging: Path | None = None


def spark_submit(
    packed: Packed, master: str, mode: DeployMode, arguments: Sequence[str], *, files: Sequence[Path] = ()
) -> list[str]:
    """The command. arguments: of `kseg`; files: what a driver in the cluster finds in its working folder."""
    command = ["spark-submit", "--master", master, "--deploy-mode", mode]
    yarn = master == "yarn"
    if packed.archive is not None:
        python = f"./{ENVIRONMENT}/bin/python"
        command += ["--archives", f"{packed.archive}#{ENVIRONMENT}", "--conf", f"spark.pyspark.python={python}"]
        if mode == "client":
            command += ["--conf", f"spark.pyspark.driver.python={sys.executable}"]
        elif yarn:
            command += ["--conf", f"spark.yarn.appMasterEnv.PYSPARK_PYTHON={python}"]
        command += ["--conf", "spark.python.daemon.module=kseg.etl.spark.worker_daemon"]
    if packed.py_files:
        command += ["--py-files", ",".join(map(str, packed.py_files))]
    if packed.jars:
        command += ["--jars", ",".join(map(str, packed.jars))]
    if packed.logging is not None:
        if mode == "client":
            command += ["--driver-java-options", f"{_LOGGING}=file:{packed.logging}"]
        else:
            files = [*files, packed.logging]  # Spark copies it into the driver's working folder
            command += ["--conf", f"spark.driver.extraJavaOptions={_LOGGING}={packed.logging.name}"]
    if mode == "cluster" and files:
        command += ["--files", ",".join(map(str, files))]
    return [*command, str(packed.entry), *arguments]


def as_text(command: Sequence[str]) -> str:
    """For a shell, an option a line."""
    lines: list[str] = []
    words = iter(command)
    for word in words:
        if word.startswith("--"):
            lines.append(f"{word} {shlex.quote(next(words))}")
        else:
            rest = [word, *words] if lines else [word]
            lines.append(" ".join(map(shlex.quote, rest)))
    return " \\\n  ".join(lines)
