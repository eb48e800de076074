"""What every command on a job works with: the job, its cluster, its ledger, and who listens to progress."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kseg.client.cluster.cluster import Cluster
from kseg.client.errors import UnknownTopic
from kseg.client.groups.offsets import committed_offsets
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError, Refused
from kseg.etl.ledger.lease import Lease, acquire
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.planning.group_reconciliation import GroupView
from kseg.etl.planning.plan import Draft, PlanInputs
from kseg.etl.planning.snapshot import SourceSnapshot, take_snapshot
from kseg.etl.run.group_commit import refuse_live_group
from kseg.etl.run.report import Stopwatch
from kseg.etl.source.deferred_secrets import TaskOrigin
from kseg.etl.source.logs import Logs, logs_at
from kseg.etl.spark.connect import close, gone, open_remote
from kseg.etl.spark.session import open_context, open_session
from kseg.etl.tables.targets import Targets, is_name
from kseg.etl.telemetry.events import JobOpened, OffsetsObserved, PartitionView, SparkStarted
from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from kseg.etl.spark.connect_dataframe import RemoteWorkers

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
    _workers: RemoteWorkers | None = None

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
            progress = progress or NULL_PROGRESS
            progress.event(JobOpened(job, opened.id if opened is not None else None))
            context = cls(job, logs, cluster, opened, copy, progress, observe or nobody)
            stack.callback(context.leave_server)
            yield context

    @property
    def task_origin(self) -> TaskOrigin:
        """Where tasks read from: what `logs` reads from, or a reference to it (`spark.executor_secrets`)."""
        return self.job.by_reference or self.logs.origin

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
                start = open_remote if self.remote else open_session
                self._spark = start(self.job, delta=delta or self._spark_meets_delta)
            if self.remote:
                self._tell_server(self._spark)
            else:
                self._tell_spark(self._spark.sparkContext)
        return self._spark

    @property
    def remote(self) -> bool:
        """Whether Spark is a Connect server's: there is no SparkContext then."""
        return self.job.spark.remote is not None

    def leave_server(self) -> None:
        """Give up a Connect session, and what it still does. The next one that is asked for is another."""
        if self.remote and self._spark is not None:
            close(self._spark)
            self._spark = self._workers = None

    @contextmanager
    def server(self) -> Iterator[None]:
        """Around work in Spark: a Connect server that is gone is a failure that may pass, in another session.

        Raises:
            RetriableFailure: in place of what Connect raised.
        """
        try:
            yield
        except Exception as error:
            failure = gone(error) if self.remote else None
            if failure is None:
                raise
            self.leave_server()
            raise failure from error

    def workers(self) -> SparkContext | RemoteWorkers:
        """Who runs tasks whose rows stay with them."""
        if not self.remote:
            return self.spark_context()
        if self._workers is None:
            from kseg.etl.spark.connect_dataframe import RemoteWorkers

            self._workers = RemoteWorkers(self.spark())
        return self._workers

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
            self._tell_spark(self._spark_context)
        return self._spark_context

    def _tell_server(self, session: SparkSession) -> None:
        told = {key: session.conf.get(key, "") or "" for key in ("spark.app.id", "spark.master")}
        self.progress.event(SparkStarted(told["spark.app.id"], told["spark.master"], None))

    def _tell_spark(self, spark: SparkContext) -> None:
        self.progress.event(SparkStarted(spark.applicationId, spark.master or "", spark.uiWebUrl))

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
        with self._knowing_topics():
            snapshot = take_snapshot(self.logs, self.job, copy=self.copy)
        views = {tp: PartitionView(b.start, b.high_watermark, b.last_stable) for tp, b in snapshot.bounds.items()}
        self.progress.event(OffsetsObserved(views))
        return snapshot

    def partitions(self) -> tuple[TopicPartition, ...]:
        """The job's partitions as they are now, without asking where their logs stand. Raises as `snapshot`."""
        source = self.job.source
        with self._knowing_topics():
            return tuple(self.logs.topics(topics=source.topics, pattern=source.pattern, assign=source.assign))

    @contextmanager
    def _knowing_topics(self) -> Iterator[None]:
        try:
            yield
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
        views = {tp: PartitionView(committed=found.offset) for tp, found in offsets.items()}
        self.progress.event(OffsetsObserved(views))
        return GroupView(self.job.group, offsets, watched=self.commits_offsets, accept=accept)

    def tell_frontiers(self, state: JobState) -> None:
        """Where the next run would start, of all partitions that the ledger knows."""
        self.progress.event(OffsetsObserved({tp: PartitionView(frontier=state.frontier(tp)) for tp in state.bases}))

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

    def draft(self, seen: PlanInputs, state: JobState, lease: Lease) -> Draft:
        """A plan's draft whose events are written under the lease."""
        return Draft(seen, state, lease.sign)
