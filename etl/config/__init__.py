"""The job file: what it may say (`models`, `job`), how it is read (`load`), what must hold (`rules`), how secrets stay
out."""

from etl.config.interval import IntervalRules
from etl.config.job import Job
from etl.config.load import load_job
from etl.config.models import (
    CATCH_ALL,
    ArrowStep,
    AtTime,
    OffsetSpec,
    PythonStep,
    Route,
    Run,
    Segments,
    Sink,
    Source,
    Spark,
    SqlStep,
    Step,
    Target,
)
from etl.config.scheduling import Airflow, AssetSchedule, Execution
from etl.config.secrets import SecretProperties

__all__ = [
    "CATCH_ALL",
    "Airflow",
    "ArrowStep",
    "AssetSchedule",
    "AtTime",
    "Execution",
    "IntervalRules",
    "Job",
    "OffsetSpec",
    "PythonStep",
    "Route",
    "Run",
    "SecretProperties",
    "Segments",
    "Sink",
    "Source",
    "Spark",
    "SqlStep",
    "Step",
    "Target",
    "load_job",
]
