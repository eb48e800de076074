"""The job of an unfinished run, put together from its plan and from today's job file (`etl.config.continuation`)."""

from __future__ import annotations

from kseg.etl.config.continuation import Continuation, continuation_of, continued
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.config.pinned import pinned_document
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import RunState


def as_planned(job: Job, run: RunState) -> Job:
    """The job as a run has pinned it, with today's values of the fields that are `AtContinuation`.

    The incremental chain reads today's log files or brokers: what the job file names is its log. All other runs read
    what they were planned from.

    Raises:
        ConfigurationError: the plan is no valid job with the connections of today.
    """
    # Sections of connections are not read from the plan at all: references there may lead nowhere by now, and earlier
    # releases pinned the address of a Connect server with its token, which no document may have.
    today = job.pinned()
    document = pinned_document(run.plan.pinned_config, today)
    whole = {key for key, field in Job.model_fields.items() if continuation_of(field) is Continuation.AT_CONTINUATION}
    pinned = {key: value for key, value in document.items() if key not in whole}
    connected = {key: value for key, value in today.items() if key in whole}
    if job.registry is None and (registry := document.get("registry")) is not None:
        connected["registry"] = registry  # the job has none any more, and the run's schemas are there
    source = dict(pinned["source"])
    if run.mode == ev.INCREMENTAL:
        source.pop("segments", None)
        if job.source.segments is not None:
            source["segments"] = today["source"]["segments"]
    planned = job_from_document({**pinned, **connected, "source": source}, env=job.environment())
    return continued(planned, job.model_copy(update={"registry": planned.registry}))
