"""The ways to start a driver: each takes a `Submission` and gives a handle that finds the driver again."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

from kseg_airflow.compat import AirflowFailException
from kseg_airflow.drivers.handles import Handle
from kseg_airflow.submission import Submission

WAYS: Final = {
    "local": "kseg_airflow.submit.local",
    "spark-submit": "kseg_airflow.submit.spark_submit",
    "livy": "kseg_airflow.submit.livy",
}

__all__ = ["Submission", "submitter_of"]


def submitter_of(name: str) -> Callable[[Submission], Handle]:
    """The way of this name: local, spark-submit or livy. Raises AirflowFailException."""
    if name not in WAYS:
        raise AirflowFailException(f"submit={name!r} is not supported: {', '.join(WAYS)}")
    submit: Callable[[Submission], Handle] = importlib.import_module(WAYS[name]).submit
    return submit
