"""Objects that a run's steps share: the job, its clients, its Spark, its planning inputs and tables, and its
listeners."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from kseg.etl.config.job import Job
from kseg.etl.executors.engine import Engine
from kseg.etl.ledger.holder_process import known_dead
from kseg.etl.ledger.lease import Lease, acquire
from kseg.etl.planning.inputs import InputReader
from kseg.etl.run.clients import JobClients, LedgerPolicy
from kseg.etl.run.deadline import RunDeadline
from kseg.etl.run.group_commit import fence_attempts, refuse_live_group, refuse_share_group
from kseg.etl.spark.job_session import JobSession
from kseg.etl.tables.targets import Targets
from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress
from kseg.etl.telemetry.stopwatch import Stopwatch

Observer = Callable[[str], None]
"""Called with the name of every step of the commit protocol (`land:/lake/orders:before`); tests stop a run there."""


def ignore_step(step: str) -> None:
    """The observer of a run that no test stops."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """An open job. Holds its parts together and does nothing itself but take leases."""

    job: Job
    clients: JobClients
    spark: JobSession
    engine: Engine
    targets: Targets
    inputs: InputReader
    progress: Progress
    observe: Observer
    stopwatch: Stopwatch
    deadline: RunDeadline

    @classmethod
    @contextmanager
    def open(
        cls,
        job: Job,
        progress: Progress | None = None,
        observe: Observer | None = None,
        *,
        ledger: LedgerPolicy = "create",
        copy: bool = False,
    ) -> Iterator[JobContext]:
        """Open the job's clients. Spark starts when it is first needed, and a Connect session is closed at the end.

        copy: the job's files are an older copy of some of its partitions.

        Raises:
            Refused: the ledger is damaged, or missing where it is required.
            RetriableFailure: the ledger's store is not available.
        """
        progress = progress or NULL_PROGRESS
        stopwatch = Stopwatch()
        deadline = RunDeadline(job.run.deadline)
        spark = JobSession(job, progress, stopwatch)
        engine = Engine(spark)
        targets = Targets(job, lambda: spark.session(delta=True))
        with JobClients.open(job, progress, ledger=ledger, copy=copy) as clients:
            if clients.ledger_or_none is not None and clients.ledger_or_none.raced:
                targets.ledger_made()
            inputs = InputReader(
                job,
                clients.logs,
                clients.cluster_or_none,
                targets,
                clients.read_state,
                progress,
                copy,
                clients.registry,
            )
            try:
                yield cls(
                    job, clients, spark, engine, targets, inputs, progress, observe or ignore_step, stopwatch, deadline
                )
            finally:
                engine.close()

    def lease(self, chain: str, *, take_over: bool) -> Lease:
        """Take the chain's lease; that of a dead process of this machine without waiting. Raises AnotherRunActive."""
        self.observe("lease:before")
        lease = acquire(
            self.clients.ledger,
            self.job.name,
            chain,
            duration=self.job.run.lease,
            take_over=take_over,
            succeeds=known_dead,
        )
        self.observe("lease:after")
        return lease

    @contextmanager
    def run_lease(self, chain: str, *, take_over: bool, repair: bool = False) -> Iterator[Lease]:
        """The chain's lease, for a command that continues, finishes or abandons the chain's run.

        Where the group's offsets are committed in transactions, by the job or by the run's plan, the transaction of the
        run that is taken over is aborted before anything else: a suspended process could commit it later, after its
        rows have been removed.

        repair: do not fence for a run without an account, which has no transaction open: its driver fenced before it
        planned, and commits only accounted runs under its lease. So such a run can be finished or abandoned where its
        brokers are gone.

        Raises:
            AnotherRunActive: another process holds the lease.
            ConfigurationError, KafkaError: as `fence_attempts`.
        """
        with self.lease(chain, take_over=take_over) as lease:
            run = self.clients.ledger.known(self.job.name).unfinished(chain)  # as of the lease
            if not repair or run is None or run.accounted is not None:
                fence_attempts(self.clients.cluster_or_none, self.job, run, self.clients.ledger.id)
            yield lease

    def check_group(self, *, commits: bool = True) -> None:
        """Check the job's group before anything is planned. commits: whether the run commits the group's offsets.

        Raises:
            ConfigurationError: it is a group of another type than the run needs.
            Refused: `group-has-members`, if its offsets are to be committed.
        """
        group, cluster = self.job.group, self.clients.cluster_or_none
        if group is None or cluster is None:
            return
        if commits and self.job.commits_offsets:
            refuse_live_group(cluster, group)
        else:
            refuse_share_group(cluster, group)
