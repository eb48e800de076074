"""A Spark session, as tables use it: its settings, how many tasks it runs at once, which stores it
reaches, how it writes places."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kseg.etl.ledger.store_errors import check_place
from kseg.etl.tables.errors import NoFileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def parallelism(session: SparkSession) -> int:
    """How many tasks run at once, in a session of this process or on a Connect server."""
    if hasattr(session, "_jvm"):
        return session.sparkContext.defaultParallelism
    return slices_of_a_range(session)


def slices_of_a_range(session: SparkSession) -> int:
    """How many slices Spark gives a range by default, which is the parallelism of a Connect server."""
    numbers = session.range(0, 1 << 16).selectExpr("spark_partition_id() AS slice")
    return int(numbers.selectExpr("max(slice) AS last").collect()[0]["last"]) + 1


@contextmanager
def setting(session: SparkSession, **values: str | None) -> Iterator[None]:
    """Settings of a session within this context. None: not set."""
    conf = session.conf
    before = {key: conf.get(key, None) for key in values}
    for key, value in values.items():
        conf.unset(key) if value is None else conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            conf.unset(key) if value is None else conf.set(key, value)


@contextmanager
def reaching(place: str) -> Iterator[None]:
    """Around Spark's first access to a table: tasks write to stores that Spark's Hadoop may have no file system for.

    Raises NoFileSystem in place of Java's and of the Connect server's words for that.
    """
    try:
        yield
    except Exception as error:
        if "No FileSystem for scheme" not in str(error):
            raise
        raise NoFileSystem.of(
            "spark.conf",
            f"Spark has to read {place} itself, and has no file system for {place.partition('://')[0]}://",
            "configure its jars and options: docs/guides/clusters.md, Remote stores",
        ) from error


def hadoop_place(location: str) -> str:
    """The path or URL for the text of a Hadoop path, in which nothing is percent-encoded, even in a `file:` URI.

    Hadoop paths are what Spark answers to `DESCRIBE DETAIL`.

    Raises:
        ConfigurationError: delta-rs takes it for another place.
    """
    place = f"/{location.removeprefix('file:').lstrip('/')}" if location.startswith("file:") else location
    check_place(place, setting="sink", may_escape=False, table=place)
    return place
