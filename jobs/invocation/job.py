"""A job file and the options of a command as a `Job`; its secrets are kept out of every message from then on.

`--command-config FILE`: Java client properties that override the job file's `kafka:` section, where an orchestrator
keeps a cluster's address and secrets apart from the job. Values whose names sound like secrets are treated as if the
job file referred to them: the job's repr, its ledger and the process' output show no more than a reference.

`--remote sc://HOST:PORT`: a Spark Connect server instead of a Spark of the command's own.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import SPARK_REMOTE
from kseg.jobs.output.redaction import REDACTOR

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.errors import ConfigurationError
    from kseg.jobs.api.properties import PropertiesFile


def load_job(invocation: Invocation, job_file: str, *, starts_spark: bool = False, decodes: bool = False) -> Job:
    """Load and validate a job file.

    starts_spark: the command starts a Spark session, so a Java is needed, unless spark-submit started one already.
    decodes: it plans a run, so the schemas of `decode:` have to compile, and the transform's functions to be there.

    Raises:
        ConfigurationError: the job file, the properties file or the server's address is invalid.
        JavaMissing: there is no Java to start Spark with.
    """
    from kseg.etl.config.load import job_name
    from kseg.etl.config.load import load_job as load
    from kseg.etl.errors import ConfigurationError
    from kseg.etl.telemetry.events import JobRead
    from kseg.jobs.api.properties import PropertiesFile
    from kseg.jobs.python_api import prepare_spark

    given = PropertiesFile.read(invocation.command_config) if invocation.command_config is not None else None
    try:
        job = load(job_file, kafka=given.values if given is not None else {})
    except ConfigurationError as error:
        if given is not None:
            error = _in_their_file(error, given)
        if (name := job_name(job_file)) is not None:
            invocation.progress.event(JobRead(name, None))
        raise error from None
    REDACTOR.learn(job.secret_values())
    invocation.progress.event(JobRead(job.name, job))
    if decodes and (job.decode is not None or job.transform):
        _check_steps(job, job_file)
    if starts_spark:
        job = with_remote(job, invocation.remote)
        prepare_spark(job)
    return job


def _check_steps(job: Job, job_file: str) -> None:
    from kseg.etl.config.document import with_lines
    from kseg.etl.errors import ConfigurationError
    from kseg.etl.run.check_decode import decode_faults
    from kseg.etl.run.check_job import import_faults

    if faults := with_lines([*decode_faults(job, strict=False), *import_faults(job)], job_file):
        raise ConfigurationError(faults, file=job_file)


def _in_their_file(error: ConfigurationError, given: PropertiesFile) -> ConfigurationError:
    """The error with the properties' own file and lines where it is about properties of `--command-config`."""
    from kseg.etl.errors import ConfigurationError

    faults = given.placed(error.faults)
    return ConfigurationError(faults, file=error.file if any(f in error.faults for f in faults) else given.file)


def with_remote(job: Job, remote: str | None) -> Job:
    """The job with the Spark Connect server of the command line, else of the job file, else of SPARK_REMOTE.

    remote: the value of `--remote`. A token in the address is redacted from messages. Under spark-submit the
    environment variable does not count: there is a Spark already.

    Raises:
        ConfigurationError: it is not the address of a Spark Connect server.
    """
    from pydantic_core import PydanticCustomError

    from kseg.etl.config.remote import EXAMPLE, connect_url, tokens_in
    from kseg.etl.errors import ConfigurationError
    from kseg.etl.spark.submission import is_submitted

    setting = "--remote"
    if remote is None and job.spark.remote is None and not is_submitted():
        remote, setting = os.environ.get(SPARK_REMOTE), SPARK_REMOTE
    if remote is None:
        return job
    REDACTOR.learn(tokens_in(remote))
    try:
        return job.on_remote(connect_url(remote))
    except PydanticCustomError:
        raise ConfigurationError.of(setting, "is not an address of a Spark Connect server", EXAMPLE) from None
