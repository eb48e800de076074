"""Which executor a run uses. Pure: from the job's settings and what its plan needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kseg.etl.errors import ConfigurationError

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

ExecutorName = Literal["spark", "connect", "local"]

SparkHere = Literal["none", "running", "submitted"]
"""The Spark of this process: none, a session that runs, or the application that spark-submit started it for."""

MEGABYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The executor, and the reason in words that users know."""

    executor: ExecutorName
    why: str


def choose(job: Job, *, size: float | None, needs_spark: str | None, spark: SparkHere) -> EngineChoice:
    """The executor of a run.

    size: estimated bytes to read; None if they are not known. needs_spark: the step or table that only Spark can do, if
    there is one. spark: whether spark-submit started this process, or it has a session that runs.

    Raises ConfigurationError: `run.engine: local` with a step, a table or a server that needs Spark.
    """
    run = job.run
    below = f"run.local_below ({_megabytes(run.local_below)})"
    if run.engine == "local" and (needs_spark or job.spark.remote):
        reason = needs_spark or "the job runs on a Spark Connect server (spark.remote)"
        raise ConfigurationError.of(
            "run.engine", f"local cannot run this job: {reason}", "use `engine: auto`, or `engine: spark`"
        )
    if job.spark.remote:
        return EngineChoice("connect", "spark.remote is set")
    if spark == "submitted":
        return EngineChoice("spark", "spark-submit started this process")
    if run.engine == "spark":
        return EngineChoice("spark", "run.engine is spark")
    if run.engine == "local":
        return EngineChoice("local", "run.engine is local")
    if spark == "running":
        return EngineChoice("spark", "this process has a Spark session already")
    if needs_spark:
        return EngineChoice("spark", needs_spark)
    if size is not None and size >= run.local_below:
        return EngineChoice("spark", f"about {_megabytes(size)} to read, which is not below {below}")
    return EngineChoice("local", f"less to read than {below}")


def _megabytes(size: float) -> str:
    return f"{size / MEGABYTE:,.0f} MB"
