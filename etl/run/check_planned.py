"""Rows whose schemas are in a registry, checked once a plan has pinned these: do they fit the job's tables?"""

from __future__ import annotations

from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.schemas import lineages_of
from kseg.etl.run.check_decode import table_of
from kseg.etl.run.schemas import framed_schemas
from kseg.etl.run.sink_rows import check_batch_rows
from kseg.etl.transform.transform import transform_of


def checked_at_plan(job: Job) -> bool:
    """Whether the job's columns are known at a plan and not before: steps on the DataFrame are left out."""
    return any(lineages_of(job)) and not transform_of(job).on_frame


def check_planned_rows(job: Job, plan: ev.RunPlan, state: JobState) -> None:
    """The columns of a plan's rows, as its run checks them before it reads. Nothing is read; Spark is not started.

    state: with the plan's own schemas.

    Raises ConfigurationError: a step does not work, or its rows cannot be landed.
    """
    if not plan.schemas or not plan.ranges or not checked_at_plan(job):
        return
    steps = transform_of(job, framed_schemas(job, plan, state)).on_batches
    tables = {one.topic: table_of(job, one.topic) for one in plan.ranges}
    check_batch_rows(job, steps, tables, merge=job.adds_columns)
