"""A job's transform checked by Spark alone: does it work, and would it give the same rows if a task ran again?"""

from __future__ import annotations

from kseg.etl.config.job import Job
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.planning.schemas import lineages_of
from kseg.etl.run.check_decode import table_of
from kseg.etl.run.read_options import read_options
from kseg.etl.run.sink_rows import check_batch_rows, check_sink_schemas
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark.dataframe import rows
from kseg.etl.spark.job_session import JobSession
from kseg.etl.tasks.range_results import NoAccumulator
from kseg.etl.transform.frame_schema import arrow_schema_of
from kseg.etl.transform.plan_warnings import plan_warnings
from kseg.etl.transform.transform import transform_of


def check_transform(job: Job) -> tuple[str, ...]:
    """Warnings about the plan of a job's steps. Nothing is read or written; Spark starts where a step needs it.

    Raises:
        ConfigurationError: a step does not work, or its rows cannot be landed.
        RetriableFailure: a Connect server is not available.
    """
    transform, options = transform_of(job), read_options(job)
    if any(lineages_of(job)):
        who = "a run" if transform.on_frame else "`kseg plan`"
        note = f"not checked: the transform's columns, whose schemas are in a registry; {who} reads them"
        return (note,) if job.transform else ()  # of `decode:` alone, its own check says so
    tables = {topic: table_of(job, topic) for topic in transform.on_batches.topics or (CATCH_ALL,)}
    if not transform.on_frame:
        check_batch_rows(job, transform.on_batches, tables, merge=job.sink.merge_schema)
        return ()
    spark = JobSession(job)
    try:
        with spark.typed_errors():
            # A task that is only planned: no action asks for its rows.
            nothing = RangeTask(next(iter(tables)), 0, 0, 1)
            source, _ = rows(
                spark.session(),
                [nothing],
                LogFiles(("none",)),
                options,
                transform.on_batches,
                gathered=NoAccumulator(),
                topics=tables,
            )
            frame = transform.apply_to_frame(source)
            check_sink_schemas(job, arrow_schema_of(frame), next(iter(tables.values())))
            return plan_warnings(frame)
    finally:
        spark.close()
