"""How a job's ranges are read: made here from the job and a run's plan, for landing, counting and verifying alike."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.values import TopicIdentity
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.logs import Logs
from kseg.etl.source.range_result import ALL_GAPS, MAX_GAPS
from kseg.etl.source.tasks import RangeTask, SupportsRange
from kseg.segment_reader.decode.engine import Limits


def read_options(job: Job, plan: ev.RunPlan | None = None) -> DecodeOptions:
    """What rows are read and which columns they have.

    plan: of the run that reads; None for a reading that belongs to no run, whose rows have no late marks.
    """
    letters, refuses = job.dead_letters is not None, job.source.header_names == "refuse"
    return DecodeOptions(
        isolation_level=job.source.isolation_level,
        headers=job.uses_headers or letters,
        # Where records are decoded, what is refused is handled as what cannot be decoded (`transform.decode`).
        raw_headers=job.decode is not None and (letters or (refuses and job.uses_headers)),
        header_names="refuse" if refuses and job.decode is None else "replace",
        provenance=job.source.provenance,
        # Without a transform nothing can touch a row's own address.
        addresses=job.transforms_rows,
        # As pinned: a run that was taken up lands the columns that its first attempt landed.
        marks_late=plan is not None and plan.marks_late,
        late_before=plan.late_before_ms if plan is not None else None,
        limits=Limits(max_batch_bytes=job.source.max_batch_bytes),
        on_data_loss=job.source.on_data_loss,
        on_corruption=job.source.on_corruption,
        max_gaps=ALL_GAPS if plan is not None and plan.replaces else MAX_GAPS,
    )


def read_tasks(
    job: Job, logs: Logs, ranges: Iterable[SupportsRange], topics: Mapping[str, TopicIdentity], *, min_tasks: int
) -> tuple[RangeTask, ...]:
    """These ranges cut into tasks, always in the same way. topics: as the ledger knows them."""
    return logs.tasks(
        ranges,
        max_records=job.source.max_records_per_task,
        min_tasks=min_tasks,
        topics={name: topic.topic_id for name, topic in topics.items()},
    )
