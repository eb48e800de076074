"""Reads Spark's records of the attempts of a write's tasks and stages: whether one ran again, and why the first failed.

Records of a task's first attempt are in the transaction, and cannot be aborted separately. So a later attempt raises
TaskRepeated. Spark's exception has the error of the last attempt alone: the driver takes that of the first one from
Spark's status store, which the Spark UI shows too.

If a stage runs again, because shuffle files were lost, its tasks count their attempts from 0 again, and a Python task
cannot see the stage's attempt: the driver asks Spark for it. If Spark has already dropped the information on a stage,
the stage may have run again, which counts as a repetition as well.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kseg.etl.errors import RetriableFailure
from kseg.etl.tasks.error_transport import ErrorTransport

if TYPE_CHECKING:
    from pyspark import SparkContext

_EVENTS_MS = 60_000
_MOST_ATTEMPTS = 100_000
"""How many attempts of a stage are looked at, the last ones. Spark keeps as many (`spark.ui.retainedTasks`)."""


class TaskRepeated(RetriableFailure):
    """Spark ran a task of an exactly-once write a second time, so all of it was aborted. Run the write again."""


class Failed(NamedTuple):
    """A task's attempt that has failed. error: None if it was none of ours, such as a lost executor."""

    task: int
    attempt: int
    error: Exception | None


@contextmanager
def watched(context: SparkContext, transport: ErrorTransport) -> Iterator[None]:
    """Around the job.

    Raises:
        TaskRepeated: Spark has, or may have, run a task or a stage again, and no error of the first attempt is known.
        RetriableFailure: Spark does not report it in time.
        KsegError, KafkaError: the error of a task's first attempt.
    """
    name = "spark.jobGroup.id"
    before: Any = context.getLocalProperty(name)  # None: setLocalProperty removes the property again
    group = f"kseg-write-{uuid.uuid4().hex}"
    context.setLocalProperty(name, group)
    try:
        with transport.opening():
            yield
    except TaskRepeated:
        first = first_error(failed_attempts(context, group, transport))
        if first is None:
            raise
        raise first from first.__cause__
    finally:
        context.setLocalProperty(name, before)
    _await_events(context)
    refuse_repeated_stages(context.statusTracker(), group)


def refuse_repetition(context: Any) -> None:
    """In a task (context: its TaskContext): refuse a retried or speculative attempt, as another one may have written.

    Raises TaskRepeated.
    """
    if context is None:
        raise RuntimeError("this runs in a Spark task only")
    if context.attemptNumber() > 0:
        raise TaskRepeated(
            f"Spark ran task {context.partitionId()} a second time (attempt {context.attemptNumber()}): records of the "
            "first attempt cannot be distinguished",
            remedy="run the write again; with speculation, set spark.speculation=false",
        )


def first_error(failed: list[Failed]) -> Exception | None:
    """The error of the first attempt of a task whose later ones were refused; None if Spark had none of ours.

    failed: in the order of their start.
    """
    refused = {attempt.task for attempt in failed if isinstance(attempt.error, TaskRepeated)}
    return next((each.error for each in failed if each.error and not each.attempt and each.task in refused), None)


def failed_attempts(context: SparkContext, group: str, transport: ErrorTransport) -> list[Failed]:
    """The failed attempts of the group's last stage, the one that writes, in the order of their start.

    There is no public method for this. Empty if Spark has dropped the information, or has this method no more.

    Raises RetriableFailure if Spark does not report in time.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    _await_events(context)
    status = context.statusTracker()
    jobs = [status.getJobInfo(number) for number in status.getJobIdsForGroup(group)]
    stages = [stage for job in jobs if job is not None for stage in job.stageIds]
    if not stages:
        return []
    try:
        found = context._jsc.sc().statusStore().taskList(max(stages), 0, _MOST_ATTEMPTS)
    except Py4JError:
        return []
    tasks = [task for task in map(found.apply, range(found.size())) if task.errorMessage().isDefined()]
    return [
        Failed(task.index(), task.attempt(), transport.find_in(task.errorMessage().get()))
        for task in sorted(tasks, key=lambda task: task.taskId())
    ]


def refuse_repeated_stages(status: Any, group: str) -> None:
    """Raises TaskRepeated unless Spark knows that each stage of the group's jobs ran once."""
    jobs = {number: status.getJobInfo(number) for number in status.getJobIdsForGroup(group)}
    forgotten = [f"job {number}" for number, job in jobs.items() if job is None]
    for stage in sorted({stage for job in jobs.values() if job is not None for stage in job.stageIds}):
        found = status.getStageInfo(stage)
        if found is None:
            forgotten.append(f"stage {stage}")
        elif found.currentAttemptId > 0:
            raise TaskRepeated(
                f"Spark ran stage {stage} again (attempt {found.currentAttemptId}): records of its first attempt "
                "cannot be distinguished",
                remedy="run the write again",
            )
    if forgotten or not jobs:
        raise TaskRepeated(
            f"Spark no longer knows whether it ran {', '.join(forgotten) or 'a stage of the write'} again",
            remedy="run the write again in a session with larger spark.ui.retainedStages and spark.ui.retainedJobs",
        )


def _await_events(context: SparkContext) -> None:
    """Wait until Spark's listener bus is empty: a job may end before the status tracker has the events of its last
    stage. There is no public method for this. Raises RetriableFailure.
    """
    try:
        context._jsc.sc().listenerBus().waitUntilEmpty(_EVENTS_MS)
    except Exception as error:
        raise RetriableFailure(
            f"Spark has not reported within {_EVENTS_MS / 1000:g} s whether it ran a stage again",
            remedy="run the write again",
        ) from error
