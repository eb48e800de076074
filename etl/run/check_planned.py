"""A plan's rows, checked with what the plan has found: do they fit the tables as these are? Their schemas may be in a
registry, so that their columns are not known before."""

from __future__ import annotations

from collections.abc import Iterator

from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.schemas import lineages_of
from kseg.etl.run.schemas import transform_of_run
from kseg.etl.run.sink_rows import batch_schemas, planned_sinks, topics_of
from kseg.etl.tables.targets import Targets
from kseg.etl.transform.transform import transform_of


def checked_at_plan(job: Job) -> bool:
    """Whether the job's columns are known at a plan and not before: steps on the DataFrame are left out."""
    return any(lineages_of(job)) and not transform_of(job).on_frame


def check_planned_rows(job: Job, targets: Targets, plan: ev.RunPlan, state: JobState) -> Iterator[str]:
    """Check the rows of a plan as its run does before it reads: their columns, and whether they fit the tables.

    Nothing is read; Spark is not started. state: with the plan's own schemas.

    Yields what was not checked.

    Raises:
        ConfigurationError: a step does not work, or its rows cannot be landed in their tables.
    """
    if not plan.ranges:
        return
    if transform_of(job).on_frame or (any(lineages_of(job)) and not plan.schemas):
        yield "not checked: whether the rows fit the tables"
        return
    steps = transform_of_run(job, plan, state).on_batches
    tables = job.sink.tables_of(()) if plan.routed else {*topics_of(plan).values()}
    unknown = [
        table
        for table, sink in planned_sinks(job, plan, steps, batch_schemas(job, plan, steps, tables)).items()
        if not targets.check_fit(table, sink, plan.run_id)
    ]
    if unknown:
        yield f"not checked: whether the rows fit {', '.join(unknown)}, which Spark writes"
