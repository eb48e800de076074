"""Backfills and interval runs: `kseg backfill`. The request and its ranges: `etl.planning.backfill`."""

from __future__ import annotations

from dataclasses import replace

from kseg.etl.config.job import Job
from kseg.etl.dispositions.replace import adopted_jobs
from kseg.etl.ledger.modes import BACKFILLS
from kseg.etl.planning.backfill import (
    BackfillPlanner,
    all_in_files,
    job_for,
    run_id_of,
    unfinished_from_files,
    unfinished_replacement,
)
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.planning.preflight import read_without_lease
from kseg.etl.run.context import JobContext, Observer
from kseg.etl.run.pipeline import pursue
from kseg.etl.run.report import RunReport
from kseg.etl.telemetry.progress import Progress


def run_backfill(
    job: Job,
    request: BackfillRequest,
    *,
    take_over: bool = False,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> RunReport:
    """Land the requested ranges; a request that has been completed before changes nothing.

    Raises:
        ConfigurationError: partitions that the job does not read; `replace` without addresses in the sink.
        IntervalOpen: an interval whose boundaries cannot be pinned yet.
        Refused, AnotherRunActive: as for any run.
    """
    job = job_for(job, request)
    with JobContext.open(job, progress, observe, copy=bool(request.segments)) as context:
        if request.segments:
            context.progress.message(f"reading {', '.join(request.segments)} in place of the brokers")
        context.check_group(commits=request.commit_offsets)
        adopted_jobs(request.adopt)  # raises if a ledger that it names does not exist, before a run is planned with it
        if not request.unbounded:
            return _run(context, request, take_over=take_over)
        left = unfinished_from_files(context.clients.read_state(), request.segments)
        if left is not None:
            report = _run(context, replace(left, commit_offsets=request.commit_offsets), take_over=take_over)
            report.notes.append(
                "an unfinished backfill from these files was completed first: repeat the command to land the other "
                "offsets"
            )
            return report
        bounded = read_without_lease(
            context.clients.read_state, lambda state: all_in_files(context.inputs, request, state)
        )
        if bounded is None:
            report = RunReport(job.name, None, BACKFILLS[request.mode].name, "nothing-to-do")
            report.notes.append("the files have no offsets above the job's bases")
            return report
        return _run(context, bounded, take_over=take_over)


def _run(context: JobContext, request: BackfillRequest, *, take_over: bool) -> RunReport:
    state = context.clients.read_state()
    left = unfinished_replacement(request, state)
    report = _pursue(context, request, run_id_of(request, state), take_over=take_over)
    if left is None or left.accounted is None or left.config_hash == context.job.hash_by(left.plan.rules):
        return report
    # It has only been finished: its rows are as the job file was then.
    return _pursue(context, request, run_id_of(request, context.clients.read_state()), take_over=take_over)


def _pursue(context: JobContext, request: BackfillRequest, run_id: str, *, take_over: bool) -> RunReport:
    planner = BackfillPlanner(context.job, context.clients.logs, request, run_id)
    return pursue(context, planner.run_id, planner.decide, take_over=take_over, prepare=planner.read_boundaries)
