"""`kseg interval`: whether a data interval is closed, so that its run can be planned."""

from __future__ import annotations

from kseg.etl.config.job import Job
from kseg.etl.planning import interval as planning
from kseg.etl.planning.backfill_request import Interval
from kseg.etl.planning.interval import IntervalStatus
from kseg.etl.run.context import JobContext


def interval_status(job: Job, interval: Interval) -> IntervalStatus:
    """Whether an interval is closed, by the ledger and the brokers; nothing is written.

    Raises:
        ConfigurationError: a topic of the job does not exist.
        Refused: the ledger is damaged.
        RetriableFailure: the brokers' responses stay older than the ledger.
        KafkaError: a request to the brokers failed.
    """
    with JobContext.open(job, ledger="optional") as context:
        state = context.clients.read_state()
        snapshot = context.inputs.snapshot(state)
        return planning.interval_status(context.clients.logs, job, state, snapshot.bounds, interval)
