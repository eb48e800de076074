"""What has changed since an unfinished run was planned, so that its ranges cannot be read as they were planned."""

from __future__ import annotations

from kseg.etl.config.job import Job
from kseg.etl.errors import listed
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.state import RunState
from kseg.etl.planning.backfill import files_of


def change_since(job: Job, run: RunState, *, copy: bool) -> str | None:
    """The change, as the end of a sentence; None if the run can continue.

    copy: the job reads an older copy of some of its partitions (`--segments`).
    """
    if run.config_hash != job.config_hash:
        return "the job file has changed since"
    segments = job.source.segments
    if run.chain == INCREMENTAL or (segments is not None and not copy):
        return None  # files that the job file names are the job's log, wherever they are by now
    # What one copy lacks, another one or the brokers may have: it would be recorded as lost.
    planned, now = files_of(run), frozenset(segments.paths if segments is not None else ())
    if planned == now:
        return None
    return f"it was planned to read {_place(planned)}, and not {_place(now)}"


def _place(files: frozenset[str]) -> str:
    return listed(sorted(files)) if files else "the brokers"
