"""One DAG from every job file of a folder:

    mode: ingest      ingest [>> verify]                       each run lands what is new
    mode: interval    closed >> land [>> verify]               each run lands its data interval, once that is closed;
                                                               parameter `mode`: replace lands its offsets again

A DAG file of three lines makes them (airflow/dags/from_job_files.py), and one of two lines beside it shows job files
that no DAG can be made of as an import error (airflow/dags/job_file_faults.py): an error in one file does not affect
the DAGs of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import (  # type: ignore[attr-defined]  # callbacks and deadlines are not in its stub
    DAG,
    AsyncCallback,
    CronDataIntervalTimetable,
    CronTriggerTimetable,
    DeadlineAlert,
    DeadlineReference,
    DeltaDataIntervalTimetable,
    DeltaTriggerTimetable,
    Param,
    get_parsing_context,
    literal,
)

from kseg_airflow.assets import table_asset
from kseg_airflow.base import KsegOperator
from kseg_airflow.job_file import NO_INTERVALS, JobFile, JobFileFault, JobFileFaults, read_job_files
from kseg_airflow.operators import KsegBackfillOperator, KsegIngestOperator, KsegVerifyOperator
from kseg_airflow.sensors import KsegIntervalClosedSensor


def job_dags(folder: Path | str, *, env: Mapping[str, str] | None = None, tags: Iterable[str] = ()) -> dict[str, DAG]:
    """A DAG for each job file that one can be made of, by its id; for the `globals()` of a DAG file.

    A worker that is about to run one of the tasks gets that one's DAG alone.

    Args:
        env: environment variables for `kseg`, over those of Airflow's processes: what the job files refer to.
        tags: more tags for all DAGs.
    """
    files, _ = read_job_files(folder)
    wanted = get_parsing_context().dag_id
    dags, _ = _made([file for file in files if wanted in (None, file.dag_id)], env, tags)
    return dags


def raise_faults(folder: Path | str) -> None:
    """Raise JobFileFaults, which names every job file without a DAG and why, if there are any."""
    files, faults = read_job_files(folder)
    _, more = _made(files)
    if faults or more:
        raise JobFileFaults(sorted([*faults, *more], key=lambda fault: fault.file))


def _made(
    files: Iterable[JobFile], env: Mapping[str, str] | None = None, tags: Iterable[str] = ()
) -> tuple[dict[str, DAG], list[JobFileFault]]:
    """The DAGs by their ids, and why others could not be made: Airflow refuses a value that seemed valid, say a cron
    expression. One such DAG in a DAG file would take away all others of it.
    """
    dags: dict[str, DAG] = {}
    faults: list[JobFileFault] = []
    for file in files:
        try:
            dag = job_dag(file, env=env, tags=tags)
            dag.validate()
        except Exception as error:  # of any type: Airflow's checks raise what they meet
            faults.append(JobFileFault(file.path, "airflow", f"no DAG can be made: {type(error).__name__}: {error}"))
        else:
            dags[file.dag_id] = dag
    return dags, faults


def job_dag(file: JobFile, *, env: Mapping[str, str] | None = None, tags: Iterable[str] = ()) -> DAG:
    """The DAG of one job file. Raises what Airflow raises for a value that it does not take."""
    with DAG(
        file.dag_id,
        description=file.description or f"{file.name}: Kafka into Delta Lake",
        schedule=_schedule(file),
        start_date=file.start_date,
        end_date=file.end_date,
        catchup=file.catchup,
        max_active_runs=file.max_active_runs,
        deadline=_deadline(file),
        tags={"kseg", *file.tags, *tags},
        default_args=_of_all_tasks(file),
        params=_params(file),
        doc_md=f"Made from `{file.path.name}`, which `kseg check` checks.",
    ) as dag:
        asking: dict[str, Any] = {
            "job_file": str(file.path),
            "env": dict(env or {}),
            "deferrable": file.execution.deferrable,
            "kafka_conn_id": _as_written(file.execution.kafka_conn_id),
        }
        run = {
            **asking,
            "submit": file.execution.submit,
            "submit_options": {key: literal(value) for key, value in (file.execution.submit_options or {}).items()},
            "spark_conn_id": _as_written(file.execution.spark_conn_id),
        }
        if file.execution.poll_interval is not None:
            run["poll_interval"] = file.execution.poll_interval.total_seconds()
        last: KsegOperator
        if file.mode == "interval":
            closed = KsegIntervalClosedSensor(task_id="closed", **asking)
            last = KsegBackfillOperator(task_id="land", mode="{{ params.mode }}", commit_offsets=True, **run)
            closed >> last
        else:
            last = KsegIngestOperator(task_id="ingest", drain=file.drain, **run)
        if file.verify:
            last >> KsegVerifyOperator(task_id="verify", **run)
    return dag


def _as_written(name: str | None) -> Any:
    """A value of a job file for a templated field of an operator: job files are no templates."""
    return None if name is None else literal(name)


def _schedule(file: JobFile) -> Any:
    """Whether runs have an interval does not depend on how Airflow is set up to read a cron expression."""
    intervals = file.mode == "interval"
    if isinstance(file.schedule, tuple):
        return [table_asset(table) for table in file.schedule]
    if isinstance(file.schedule, timedelta):
        return (DeltaDataIntervalTimetable if intervals else DeltaTriggerTimetable)(file.schedule)
    if file.schedule is None or file.schedule in NO_INTERVALS:
        return file.schedule
    return (CronDataIntervalTimetable if intervals else CronTriggerTimetable)(file.schedule, timezone=file.timezone)


def _params(file: JobFile) -> dict[str, Param]:
    """The parameters that a user may choose who triggers a run, or a backfill of Airflow's."""
    if file.mode != "interval":
        return {}
    return {"mode": Param("missing", enum=["missing", "replace"], description="replace: land the same offsets again")}


def _deadline(file: JobFile) -> DeadlineAlert | None:
    if file.deadline is None:
        return None
    return DeadlineAlert(
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=file.deadline,
        callback=AsyncCallback("kseg_airflow.deadlines.tell", {"job": file.name, "deadline": str(file.deadline)}),
    )


def _of_all_tasks(file: JobFile) -> dict[str, Any]:
    given = {"owner": file.owner, "pool": file.pool, "queue": file.queue}
    return {
        "retries": file.retries,
        "retry_delay": file.retry_delay,
        "pool_slots": file.pool_slots,
        "priority_weight": file.priority_weight,
        **{key: value for key, value in given.items() if value is not None},
    }
