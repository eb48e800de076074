"""What every command on a job works with: the job, its cluster, its ledger, and who listens to progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from client import Cluster, TopicPartition
from client.errors import UnknownTopic
from client.offsets import committed_offsets
from etl.config import Job
from etl.drift import GroupView
from etl.errors import ConfigurationError, Refused
from etl.group_commit import refuse_live_group
from etl.ledger.lease import Lease, acquire
from etl.ledger.state import JobState
from etl.ledger.store import Ledger
from etl.plan import Draft, Seen
from etl.progress import NULL_PROGRESS, Progress
from etl.report import Stopwatch
from etl.session import open_context, open_session
from etl.snapshot import SourceSnapshot, take_snapshot
from etl.source.logs import Logs, logs_at
from etl.targets import Targets, is_name

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Observer = Callable[[str], None]
"""Called with the name of every step of the commit protocol (`land:/lake/orders:before`); tests stop a run there."""


def nobody(step: str) -> None:
    """Nobody observes."""


@dataclass
class JobContext:
    """An open job. Connections are lazy: a command that asks no broker opens none.

    throttled: seconds that tasks were told to wait because of quotas, by broker.
    """

    job: Job
    logs: Logs
    _cluster: Cluster | None
    _ledger: Ledger | None
    copy: bool = False
    progress: Progress = NULL_PROGRESS
    observe: Observer = nobody
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    throttled: dict[int, float] = field(default_factory=dict)
    _spark: SparkSession | None = None
    _spark_context: SparkContext | None = None

    @classmethod
    @contextmanager
    def open(
        cls,
        job: Job,
        progress: Progress | None = None,
        observe: Observer | None = None,
        *,
        ledger: Literal["create", "required", "optional"] = "create",
        copy: bool = False,
    ) -> Iterator[JobContext]:
        """Open the ledger, the logs, and a client for the cluster where the job has one.

        ledger: what to do where there is none: make it, refuse, or go on without (for those who only look).
        copy: the job's files are a copy of some age, and of some of its partitions.

        Raises:
            Refused: the ledger is damaged, or missing where it may not be made.
            RetriableFailure: the ledger's store is away.
        """
        try:
            opened = Ledger.open(job.ledger, create=ledger == "create")
        except Refused as refused:
            if refused.code != "ledger-missing" or ledger != "optional":
                raise
            opened = None
        with ExitStack() as stack:
            cluster = stack.enter_context(Cluster(job.client_config())) if job.kafka is not None else None
            logs = logs_at(job.origin, cluster, copy=copy)
            yield cls(job, logs, cluster, opened, copy, progress or NULL_PROGRESS, observe or nobody)

    @property
    def cluster(self) -> Cluster:
        """For what brokers alone do: groups and transactions. Raises ValueError for a job without brokers."""
        if self._cluster is None:
            raise ValueError("the job has no brokers")
        return self._cluster

    @property
    def ledger(self) -> Ledger:
        """The ledger. Raises ValueError where there is none and none was to be made."""
        if self._ledger is None:
            raise ValueError("the job has no ledger yet")
        return self._ledger

    def read_state(self) -> JobState:
        """What the ledger knows of the job now."""
        return self.ledger.read(self.job.name) if self._ledger else JobState(job=self.job.name, ledger_id="")

    def spark(self, *, delta: bool = False) -> SparkSession:
        """The run's Spark session, opened when it is first asked for.

        delta: Spark itself reads or writes Delta tables. A user's own steps may do so as well.
        """
        if self._spark is None:
            self.progress.message("starting Spark")
            with self.stopwatch.phase("spark"):
                self._spark = open_session(self.job, delta=delta or self._spark_meets_delta)
        return self._spark

    def spark_context(self) -> SparkContext:
        """For work that needs no Spark SQL, which costs more to start than all the rest of Spark."""
        if self._spark is None and self._spark_meets_delta:
            self.spark()
        if self._spark is not None:
            return self._spark.sparkContext
        if self._spark_context is None:
            self.progress.message("starting Spark")
            with self.stopwatch.phase("spark"):
                self._spark_context = open_context(self.job)
        return self._spark_context

    @property
    def commits_offsets(self) -> bool:
        return self.job.group is not None and self.job.group_commit != "none"

    @property
    def group(self) -> str:
        """The group whose offsets are committed. Raises ValueError where there is none."""
        if self.job.group is None:
            raise ValueError("the job has no group")
        return self.job.group

    def lease(self, chain: str, *, take_over: bool) -> Lease:
        """Take the chain's lease. Raises AnotherRunActive."""
        self.observe("lease:before")
        lease = acquire(self.ledger, self.job.name, chain, duration=self.job.run.lease, take_over=take_over)
        self.observe("lease:after")
        return lease

    def snapshot(self) -> SourceSnapshot:
        """Ask where the logs of the job's partitions stand.

        Raises:
            Refused: `topic-missing`, where the ledger knows the topic.
            ConfigurationError: the job names a topic or partition that is not there.
        """
        try:
            return take_snapshot(self.logs, self.job, copy=self.copy)
        except UnknownTopic as error:
            if error.topic in self.read_state().topics:
                raise Refused(
                    "topic-missing",
                    f"the topic that this ledger is about is not there any more: {error.message}",
                    remedy="check bootstrap.servers, or source.segments; a topic that was deleted leaves its rows and "
                    "its ledger behind",
                    topic=error.topic,
                    partition=error.partition,
                ) from error
            told = error.topic or "?" if error.partition is None else f"{error.topic}:{error.partition}"
            raise ConfigurationError.of(
                "source",
                f"there is no topic {told}: {error.message}",
                "kseg never creates topics; check the name and the place",
            ) from error

    def refuse_live_group(self) -> None:
        """Raises Refused where the group whose offsets are to be committed has live members."""
        if self.commits_offsets:
            assert self.job.group is not None
            refuse_live_group(self.cluster, self.job.group)

    def group_view(self, partitions: tuple[TopicPartition, ...], *, accept: bool = False) -> GroupView | None:
        """The group's stable offsets; None where the job has no group, or no brokers to ask.

        A group whose offsets are never committed still says where the first run starts.
        """
        if self.job.group is None or self._cluster is None:
            return None
        offsets = committed_offsets(self._cluster, self.job.group, list(partitions))
        return GroupView(self.job.group, offsets, watched=self.commits_offsets, accept=accept)

    @property
    def _spark_meets_delta(self) -> bool:
        """Known before any table is looked at; a session cannot be given its jars later."""
        sink = self.job.sink
        names = any(is_name(str(target)) for target in sink.targets.values())
        return names or bool(self.job.frame_steps or sink.cluster_by)

    @property
    def targets(self) -> Targets:
        """The job's target tables."""
        return Targets(self.job, lambda: self.spark(delta=True))

    def see(self, state: JobState, *, accept_group_offsets: bool = False) -> Seen:
        """Brokers, tables and group as they are now, with the tables' histories checked against the ledger.

        Raises:
            Refused: a table is not what the ledger left (restored, replaced, overwritten, gone).
        """
        snapshot = self.snapshot()
        tables = {str(self.job.sink.target(topic)) for topic in snapshot.topics}
        if self.job.quarantine is not None:
            tables.add(self.job.quarantine)
        if not state.bases and not accept_group_offsets:
            for table in sorted(tables):
                self.targets.refuse_other_ledger(table, state.ledger_id)
        states = {table: self.targets.check(table, state.tables.get(table)) for table in sorted(tables)}
        group = self.group_view(snapshot.partitions, accept=accept_group_offsets)
        return Seen(self.job, snapshot, states, group)

    def draft(self, seen: Seen, state: JobState, lease: Lease) -> Draft:
        """A plan's draft whose events are written under the lease."""
        return Draft(seen, state, lease.sign)
