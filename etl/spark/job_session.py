"""The Spark of one job: a session, a bare SparkContext, or a session on a Connect server, started when first needed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kseg.etl.config.job import Job
from kseg.etl.errors import ConfigurationError
from kseg.etl.spark.catalogs import catalog_names, refuse_before_start, refuse_forgetful
from kseg.etl.telemetry.events import SparkStarted
from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress
from kseg.etl.telemetry.stopwatch import Stopwatch

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class JobSession:
    """Runs a job's Spark work. Importing this module, or making one, loads no pyspark."""

    job: Job
    progress: Progress = NULL_PROGRESS
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    _session: SparkSession | None = None
    _context: SparkContext | None = None
    _give_back: Callable[[], None] | None = None

    @property
    def remote(self) -> bool:
        """Whether the session is on a Spark Connect server: there is no SparkContext then."""
        return self.job.spark.remote is not None

    def session(self, *, delta: bool = False) -> SparkSession:
        """The Spark session, started when first asked for.

        delta: Spark itself reads or writes Delta tables. A user's own steps may do so as well.

        Raises:
            ConfigurationError: Spark lacks what the job needs; or a target table has a name in a catalog that is only
                in memory.
        """
        if self._session is None:
            _LOG.debug("starting Spark")
            with self.stopwatch.phase("spark"):
                self._session = self._open_session(delta=delta or self._needs_delta)
                self._check_catalog(self._session)
            from kseg.etl.spark.spark_errors import silence_query_contexts

            silence_query_contexts()
            if self.remote:
                conf = {key: self._session.conf.get(key, "") or "" for key in ("spark.app.id", "spark.master")}
                self.progress.event(SparkStarted(conf["spark.app.id"], conf["spark.master"], None))
            else:
                self._report_started(self._session.sparkContext)
        return self._session

    def context(self) -> SparkContext:
        """The SparkContext, without Spark SQL where nothing needs it: SQL costs more to start than the rest."""
        if self._session is None and self._needs_delta:
            self.session()
        if self._session is not None:
            return self._session.sparkContext
        if self._context is None:
            from kseg.etl.spark.session import open_context

            _LOG.debug("starting Spark")
            with self.stopwatch.phase("spark"):
                self._borrow()
                self._context = open_context(self.job)
            self._report_started(self._context)
        return self._context

    def close(self) -> None:
        """Close a Connect session, and interrupt what it still runs. A local Spark stays for its process, and a session
        that was there before has its own settings again."""
        if self._give_back is not None:
            self._give_back()
            self._give_back = None
        if self.remote and self._session is not None:
            from kseg.etl.spark.connect import close

            close(self._session)
            self._session = None

    @contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Around work in Spark. When a Connect server is gone, its session is dropped; the next call opens another.

        Raises:
            RetriableFailure: in place of Connect's own exception, and of Spark's where executors were lost.
            SparkFailure: in place of Spark's or py4j's own, which is its context.
        """
        try:
            yield
        except Exception as error:
            from kseg.etl.spark.spark_errors import spark_failure

            if self.remote:
                from kseg.etl.spark.connect import gone

                lost = gone(error)
                if lost is not None:
                    self.close()
                    raise lost from error
            failure = spark_failure(error, self._functions)
            if failure is None:
                raise
            raise failure from None

    def _open_session(self, *, delta: bool) -> SparkSession:
        if self.remote:
            from kseg.etl.spark.connect import open_remote

            return open_remote(self.job, delta=delta)
        from kseg.etl.spark.session import is_started, open_session

        if not is_started():
            refuse_before_start(self.job)
        self._borrow(delta=delta)
        return open_session(self.job, delta=delta)

    def _check_catalog(self, session: SparkSession) -> None:
        try:
            refuse_forgetful(self.job, lambda key: session.conf.get(key, None))
        except ConfigurationError:
            self.close()
            raise

    def _borrow(self, *, delta: bool = False) -> None:
        if self._give_back is None:
            from kseg.etl.spark.borrowed_session import borrow_session
            from kseg.etl.spark.session import settings_of

            self._give_back = borrow_session(settings_of(self.job, delta=delta))

    def _report_started(self, spark: SparkContext) -> None:
        self.progress.event(SparkStarted(spark.applicationId, spark.master or "", spark.uiWebUrl))

    @property
    def _functions(self) -> dict[str, str]:
        """The functions that the job's steps call, by place in the job file."""
        from kseg.etl.transform.transform import transform_of

        return {step.place: reference for step in transform_of(self.job) for reference in step.references}

    @property
    def reads_catalog(self) -> bool:
        """Whether even the state of the job's tables is known to Spark alone."""
        return bool(catalog_names(self.job))

    @property
    def _needs_delta(self) -> bool:
        """Known from the job file alone: a session that runs cannot be given Delta's jars."""
        from kseg.etl.transform.transform import transform_of

        sink = self.job.sink
        return self.reads_catalog or bool(transform_of(self.job).on_frame or sink.cluster_by or sink.widen)
