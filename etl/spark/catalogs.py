"""Whether the tables of a catalog outlive the process that made them.

A name of a table belongs to a catalog: `lake.sales.orders` to the one that `spark.sql.catalog.lake` configures, all
other names to Spark's session catalog. Without a metastore that one is in memory: its tables' files stay, and their
names are gone with the process. A run would land in the table, and the next one would not find it.

Before Spark is started, the job's `spark.conf` and spark-defaults.conf say which catalog it will have. Where something
else may say so (hive-site.xml, arguments for spark-submit, a cluster), only the running session knows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kseg.etl.catalogs.registry import resolve
from kseg.etl.config.job import Job
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.errors import ConfigurationError, Diagnostic

IMPLEMENTATION: Final = "spark.sql.catalogImplementation"
IN_MEMORY: Final = "in-memory"
DEFAULT_CATALOG: Final = "spark.sql.defaultCatalog"
CATALOG: Final = "spark.sql.catalog."
SESSION_CATALOG: Final = "spark_catalog"

_OVER_SPARKS_OWN: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
"""Delta's catalog keeps its tables where Spark's own session catalog does."""

_REMEDY: Final = (
    f"set spark.conf: {{{IMPLEMENTATION}: hive}} and the metastore's address (spark.hadoop.hive.metastore.uris); or "
    "configure a catalog (spark.sql.catalog.NAME) and write NAME.schema.table; or use sink.path"
)

Settings = Callable[[str], str | None]


def catalog_names(job: Job) -> dict[str, str]:
    """The job's tables that have names in a catalog, by the key of the job file."""
    named = {route: str(target) for route, target in job.sink.targets.items() if resolve(str(target)).location is None}
    if job.sink.routes is None:
        return {"sink.table": named[CATCH_ALL]} if CATCH_ALL in named else {}
    return {f"sink.routes.{route}.table": name for route, name in named.items()}


def refuse_forgetful(job: Job, settings: Settings) -> None:
    """Refuse names in a catalog that is only in memory. settings: Spark's, by their keys; None: not set.

    Raises:
        ConfigurationError: with a fault for each such name.
    """
    faults = [
        Diagnostic(
            place,
            f"{name} is a name in Spark's session catalog, which is in memory ({IMPLEMENTATION}: {IN_MEMORY}): the "
            "next run would not find the table",
            _REMEDY,
        )
        for place, name in catalog_names(job).items()
        if _in_session_catalog(name, settings) and _is_in_memory(settings)
    ]
    if faults:
        raise ConfigurationError(faults)


def refuse_before_start(job: Job, environment: Mapping[str, str] = os.environ) -> None:
    """Does the same as `refuse_forgetful` before this process starts Spark, if the settings already show it.

    Raises:
        ConfigurationError: as `refuse_forgetful`.
    """
    if not catalog_names(job) or job.spark.remote is not None or not job.spark.master.startswith("local"):
        return
    folders = list(_conf_folders(environment))
    arguments = environment.get("PYSPARK_SUBMIT_ARGS", "")
    if "spark.sql." in arguments or "--properties-file" in arguments:
        return
    if any((folder / "hive-site.xml").exists() for folder in folders):
        return
    settings = {**_defaults(folders), **job.spark_conf()}
    refuse_forgetful(job, settings.get)


def _in_session_catalog(name: str, settings: Settings) -> bool:
    first, *others = name.split(".")
    if others and first != SESSION_CATALOG and settings(f"{CATALOG}{first}") is not None:
        return False
    if others and first == SESSION_CATALOG:
        return True
    return (settings(DEFAULT_CATALOG) or SESSION_CATALOG) == SESSION_CATALOG


def _is_in_memory(settings: Settings) -> bool:
    own = settings(f"{CATALOG}{SESSION_CATALOG}") or _OVER_SPARKS_OWN
    return own in (_OVER_SPARKS_OWN, "builtin") and (settings(IMPLEMENTATION) or IN_MEMORY) == IN_MEMORY


def _conf_folders(environment: Mapping[str, str]) -> Iterator[Path]:
    """The folders in which Spark looks for spark-defaults.conf and hive-site.xml, as its own scripts do."""
    if folder := environment.get("SPARK_CONF_DIR"):
        yield Path(folder)
    else:
        home = environment.get("SPARK_HOME")
        if not home:
            from pyspark.find_spark_home import _find_spark_home

            home = _find_spark_home()
        yield Path(home, "conf")
    if folder := environment.get("HADOOP_CONF_DIR"):
        yield Path(folder)


def _defaults(folders: list[Path]) -> dict[str, str]:
    """The properties of spark-defaults.conf, in Java's form: `key value`, `key=value` or `key: value`."""
    try:
        text = (folders[0] / "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return {}
    found = {}
    for line in map(str.strip, text.splitlines()):
        if line and not line.startswith(("#", "!")):
            end = next((at for at, sign in enumerate(line) if sign in "=: \t"), len(line))
            found[line[:end]] = line[end:].lstrip(" \t").removeprefix("=").removeprefix(":").strip()
    return found
