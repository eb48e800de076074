"""The job file: what it may say (`models`), how it is read (`load`), what must hold (`rules`), how secrets stay out."""

from etl.config.load import load_job
from etl.config.models import (
    CATCH_ALL,
    ArrowStep,
    AtTime,
    Job,
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
from etl.config.secrets import SecretProperties

__all__ = [
    "CATCH_ALL",
    "ArrowStep",
    "AtTime",
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
