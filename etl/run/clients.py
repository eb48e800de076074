"""A job's connections: brokers, logs, ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import ConfigError
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Diagnostic, Refused
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.source.deferred_secrets import TaskOrigin
from kseg.etl.source.job_origin import deferred_origin_of, origin_of
from kseg.etl.source.logs import Logs, logs_at
from kseg.etl.telemetry.events import JobOpened
from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress

if TYPE_CHECKING:
    from kseg.client.registry.opening import Registry

LedgerPolicy = Literal["create", "required", "optional"]
"""If there is no ledger: create it, raise Refused, or go on without one (commands that only read)."""


@dataclass(frozen=True, slots=True)
class JobClients:
    """Opened and closed together. No broker and no registry is contacted before the first request.

    cluster_or_none: None for a job without brokers. registry: None for one without. ledger_or_none: None where there is
    no ledger yet.
    """

    job: Job
    logs: Logs
    cluster_or_none: Cluster | None
    ledger_or_none: Ledger | None
    registry: Registry | None = None

    @classmethod
    @contextmanager
    def open(
        cls, job: Job, progress: Progress = NULL_PROGRESS, *, ledger: LedgerPolicy = "create", copy: bool = False
    ) -> Iterator[JobClients]:
        """Open the ledger, the logs, and a client for the cluster where the job has one.

        copy: the job's files are an older copy of some of its partitions.

        Raises:
            Refused: the ledger is damaged, or missing where it is required.
            RetriableFailure: the ledger's store is not available.
        """
        try:
            opened = Ledger.open(job.ledger, create=ledger == "create")
        except Refused as refused:
            if refused.code != "ledger-missing" or ledger != "optional":
                raise
            opened = None
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(job.client_config())) if job.kafka is not None else None
            logs = logs_at(origin_of(job), cluster, copy=copy)
            registry = stack.enter_context(_registry(job)) if job.registry is not None else None
            progress.event(JobOpened(job, opened.id if opened is not None else None))
            yield cls(job, logs, cluster, opened, registry)

    @property
    def cluster(self) -> Cluster:
        """The brokers, for groups and transactions. Raises ValueError for a job without brokers."""
        if self.cluster_or_none is None:
            raise ValueError("the job has no brokers")
        return self.cluster_or_none

    @property
    def ledger(self) -> Ledger:
        """The ledger. Raises ValueError where there is none and none was to be created."""
        if self.ledger_or_none is None:
            raise ValueError("the job has no ledger yet")
        return self.ledger_or_none

    def read_state(self) -> JobState:
        """The job's current state in the ledger."""
        if self.ledger_or_none is None:
            return JobState(job=self.job.name, ledger_id="")
        return self.ledger_or_none.read(self.job.name)

    @property
    def task_origin(self) -> TaskOrigin:
        """The source of tasks: the origin of `logs`, or a reference to it (`spark.executor_secrets`)."""
        return deferred_origin_of(self.job) or self.logs.origin


def _registry(job: Job) -> Registry:
    from kseg.client.registry.opening import open_registry

    try:
        return open_registry(job.registry_config())
    except ConfigError as error:
        raise ConfigurationError([Diagnostic(f"registry.{f.key}", f.message, f.remedy) for f in error.faults]) from None
