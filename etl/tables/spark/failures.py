"""What Spark's errors while it writes a table mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from kseg.etl.errors import ConfigurationError, RetriableFailure

_RACES: Final = ("Concurrent", "MetadataChanged", "DELTA_METADATA_CHANGED")
"""In the names of Delta's exceptions and conditions for a commit that another writer's has made impossible."""


@contextmanager
def committing_to(table: str, app_id: str | None = None) -> Iterator[None]:
    """Around statements that commit to a table. table: as messages call it. app_id: of the run that commits.

    Raises:
        ConfigurationError: the rows do not fit the table.
        RetriableFailure: another writer committed first.
    """
    from pyspark.errors import AnalysisException, PySparkException

    try:
        yield
    except AnalysisException as error:
        raise ConfigurationError.of(
            "sink", f"the rows do not fit {table}: {first_line(error)}", "cast or drop columns in the transform"
        ) from error
    except PySparkException as error:
        if not any(race in str(error) for race in _RACES):
            raise
        # The caller retries: the table then says whether another attempt of this run won, or another writer.
        raise RetriableFailure(
            f"another writer committed in between: {first_line(error)}", table=table, app_id=app_id
        ) from error


def first_line(error: Exception) -> str:
    """The first line of an error's text; Java's stack follows it."""
    return str(error).strip().split("\n")[0]
