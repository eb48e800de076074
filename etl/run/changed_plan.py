"""Changes since an unfinished run was planned, after which its ranges cannot be read as they were planned."""

from __future__ import annotations

from kseg.etl.config.decoding import sections_of
from kseg.etl.config.document import dotted
from kseg.etl.config.job import Job
from kseg.etl.errors import listed
from kseg.etl.ledger.events import INCREMENTAL
from kseg.etl.ledger.state import RunState


def change_since(job: Job, run: RunState, *, copy: bool) -> str | None:
    """The change, as the end of a sentence; None if the run can continue.

    copy: the job reads an older copy of some of its partitions (`--segments`).
    """
    if run.config_hash != job.hash_by(run.plan.rules):
        return "the job file has changed since"
    segments = job.source.segments
    if run.chain == INCREMENTAL or (segments is not None and not copy):
        return None  # files that the job file names are the job's log, wherever they are by now
    # What one copy lacks, another one or the brokers may have: it would be recorded as lost.
    from kseg.etl.planning.backfill import files_of  # backfills and intervals are planned in other runs

    planned, now = files_of(run), frozenset(segments.paths if segments is not None else ())
    if planned == now:
        return None
    return f"it was planned to read {_place(planned)}, and not {_place(now)}"


def literal_notes(job: Job, run: RunState) -> list[str]:
    """Literals that a run reads as YAML values, as the rows of its tables were read, and not by their text."""
    if run.plan.rules.literals_by_source_text or job.decode is None:
        return []
    return [
        f"{dotted((*place, 'expect', column))} is [{', '.join(section.expect[column])}] in this run, as YAML and "
        f"earlier releases read it, and [{', '.join(texts)}] in the file: put the values that are meant into quotes"
        for place, section in sections_of(job.decode).items()
        for column, texts in section.expect_texts.items()
    ]


def _place(files: frozenset[str]) -> str:
    return listed(sorted(files)) if files else "the brokers"
