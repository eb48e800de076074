"""The origin of a job's records: for the driver with secrets resolved, for tasks possibly without."""

from __future__ import annotations

from collections.abc import Mapping

from kseg.etl.config.job import Job
from kseg.etl.config.sections import Segments
from kseg.etl.source.deferred_secrets import DeferredSecrets
from kseg.etl.source.origin import LogFiles, Origin


def origin_of(job: Job) -> Origin:
    """The job's files where it names some, else its brokers."""
    segments = job.source.segments
    return job.client_config() if segments is None else _log_files(job, segments, job.segment_options())


def deferred_origin_of(job: Job) -> DeferredSecrets | None:
    """The same with its references unresolved, for tasks; None where the job's tasks carry the values."""
    if job.spark.executor_secrets == "carried":
        return None
    segments = job.source.segments
    if segments is None:
        return DeferredSecrets(tuple((job.kafka or {}).items()), job.client_id)
    return DeferredSecrets(tuple((segments.options or {}).items()), files=_log_files(job, segments, {}))


def _log_files(job: Job, segments: Segments, options: Mapping[str, str]) -> LogFiles:
    return LogFiles(
        segments.paths,
        segments.layout,
        tuple(sorted(options.items())),
        past_damage=job.quarantine is not None,
        untimed=job.source.untimed,
    )
