"""The executor of one job: chosen for a run, and started when the first read needs it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kseg.etl.config.sections import PythonSection, SqlSection
from kseg.etl.executors.choice import EngineChoice, SparkHere, choose
from kseg.etl.source.log_size import ASSUMED_BYTES
from kseg.etl.spark.catalogs import catalog_names
from kseg.etl.spark.job_session import JobSession
from kseg.etl.spark.submission import is_submitted
from kseg.etl.telemetry.events import EngineChosen

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.executors.local.pool import LocalExecutor
    from kseg.etl.executors.local.server_process import ServerProcess
    from kseg.etl.executors.port import Executor


@dataclass(slots=True)
class Engine:
    """Gives the executor of a job's reads. Importing this module, or making one, loads no pyspark."""

    spark: JobSession
    _choice: EngineChoice | None = None
    _executor: Executor | None = None
    _session: object = None
    _local: LocalExecutor | None = None
    _server: ServerProcess | None = None

    def expect(self, offsets: int) -> None:
        """Start the local executor's server process, if a run of this many offsets will probably choose that executor:
        it loads what tasks need while the driver writes the plan and loads its own modules.

        Asks no broker and reads no table. The choice does not depend on it; a wrong guess costs processor time.
        """
        job = self.spark.job
        if self._choice is not None or self._server is not None or _prefers_spark(job):
            return
        choice = choose(job, size=offsets * ASSUMED_BYTES, needs_spark=None, spark=_spark_here())
        if choice.executor == "local":
            self._server = self._started()

    def choose(self, *, size: float | None, needs_spark: str | None) -> EngineChoice:
        """Choose the executor of a run, and report the choice. The arguments are those of `executors.choice.choose`.

        Raises ConfigurationError.
        """
        choice = choose(self.spark.job, size=size, needs_spark=needs_spark, spark=_spark_here())
        self._use(choice)
        return choice

    def local(self, *, size: float | None) -> Executor | None:
        """The local executor, if a run of this size that needs nothing of Spark would use it. size: as in `choose`.

        Raises ConfigurationError.
        """
        choice = choose(self.spark.job, size=size, needs_spark=None, spark=_spark_here())
        if choice.executor != "local":
            return None
        self._use(choice)
        return self.executor()

    def _use(self, choice: EngineChoice) -> None:
        if choice != self._choice:
            self._choice, self._executor = choice, None
            if choice.executor != "local":
                self._end_server()
            self.spark.progress.event(EngineChosen(choice.executor, choice.why))

    @property
    def chosen(self) -> EngineChoice | None:
        """The last choice; None if there was none."""
        return self._choice

    def executor(self) -> Executor:
        """The executor that was chosen, or the one of a command that reads without a plan; it is started here."""
        choice = self._choice or self.choose(size=None, needs_spark=None)
        # A session whose Connect server is gone was dropped, and the next one is another.
        session = self.spark.session() if choice.executor == "connect" else None
        if self._executor is None or session is not self._session:
            self._executor, self._session = self._made(choice), session
        return self._executor

    def close(self) -> None:
        """End worker processes, and close the session."""
        self._executor = None
        if self._local is not None:
            self._local.close()
            self._local = None
        self._end_server()
        self.spark.close()

    def _made(self, choice: EngineChoice) -> Executor:
        if choice.executor == "local":
            from kseg.etl.executors.local.pool import LocalExecutor

            if self._local is None:
                server, self._server = self._server or self._started(), None  # the executor ends it
                self._local = LocalExecutor(attempts=self.spark.job.run.task_attempts, server=server)
            return self._local
        if choice.executor == "connect":
            from kseg.etl.executors.connect import ConnectExecutor

            return ConnectExecutor(self.spark.session())
        from kseg.etl.executors.spark import SparkExecutor

        return SparkExecutor(self.spark.context())

    def _started(self) -> ServerProcess:
        from kseg.etl.executors.local.server_process import ServerProcess

        return ServerProcess(files=self.spark.job.source.segments is not None)

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None


def _prefers_spark(job: Job) -> bool:
    """Whether the job file alone shows that Spark runs the job."""
    if job.run.engine == "spark" or job.spark.remote:
        return True
    frame_steps = any(isinstance(step, SqlSection | PythonSection) for step in job.transform)
    return bool(frame_steps or job.sink.widen or job.sink.cluster_by or catalog_names(job))


def _spark_here() -> SparkHere:
    if is_submitted():
        return "submitted"
    # The module may be half imported, or that of `pyspark-client`, which has no SparkContext.
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    return "none" if getattr(context, "_active_spark_context", None) is None else "running"
