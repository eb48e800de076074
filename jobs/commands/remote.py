"""``--remote sc://HOST:PORT``: work on a Spark Connect server, in place of a Spark of the command's own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kseg.jobs.commands.failures import REDACTOR
from kseg.jobs.commands.noted import Noted

if TYPE_CHECKING:
    from kseg.etl.config.job import Job

_VARIABLE = "SPARK_REMOTE"

remote_option = Noted(
    "--remote",
    metavar="URL",
    help=f"A Spark Connect server, as in sc://host:15002, in place of `spark.master` (also: {_VARIABLE}).",
)
"""For commands that run Spark; `on_server` reads it."""


def on_server(job: Job) -> Job:
    """The job as the command line or the environment wants it run; a token in the address is kept out of messages.

    The option wins over the job file, the job file over the environment; under spark-submit there is a Spark already.

    Raises:
        ConfigurationError: the address is none.
    """
    from pydantic_core import PydanticCustomError

    from kseg.etl.config.remote import EXAMPLE, connect_url
    from kseg.etl.errors import ConfigurationError

    told, where = remote_option.given(), "--remote"
    if told is None and job.spark.remote is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
        told, where = os.environ.get(_VARIABLE), _VARIABLE
    if told is None:
        return job
    REDACTOR.learn(part.partition("=")[2] for part in told.split(";") if part.startswith("token="))
    try:
        return job.on_remote(connect_url(told))
    except PydanticCustomError:
        raise ConfigurationError.of(where, "is no address of a Spark Connect server", EXAMPLE) from None
