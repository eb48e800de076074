"""A job's history: its runs, the attempts that failed before anything was planned, and each attempt's error.

Only the ledger is read: no broker, no target table, no JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from kseg.etl.config.job import Job
from kseg.etl.ledger.events import INCREMENTAL, Finished, RunRefused
from kseg.etl.ledger.fold import Entry
from kseg.etl.ledger.state import RunState
from kseg.etl.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class RunError:
    """The error with which an attempt ended. code: of a refusal, else the error's class. at: ISO 8601, UTC."""

    code: str
    message: str
    at: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class RunHistory:
    """One run; or, where run is None, an attempt that planned none.

    seconds: from the plan to the end, attempts that failed and the time between them included; None before the end.
    mode: None for an attempt of a backfill, data interval or redrive that has no run yet, since the ledger does not say
    which of them it was. engine, engine_reason: where its tasks worked, and why; None if `run.engine` was `spark`, and
    when the ledger no longer has the run's events. offsets, rows_in, rows_out: None before they are known. errors: of
    its attempts, the first one first.
    """

    run: str | None
    mode: str | None
    phase: str
    began: str
    ended: str | None = None
    seconds: float | None = None
    offsets: int | None = None
    rows_in: int | None = None
    rows_out: int | None = None
    engine: str | None = None
    engine_reason: str | None = None
    errors: list[RunError] = field(default_factory=list)


@dataclass(slots=True)
class HistoryReport:
    """The newest runs of a job, the newest first. older: the number of other runs in the ledger, archived ones too."""

    job: str
    runs: list[RunHistory]
    older: int

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return asdict(self)


def history(job: Job, limit: int = 20, *, failed: bool = False) -> HistoryReport:
    """A job's newest runs and failed attempts. failed: only those with an error.

    Errors are kept as long as the ledger keeps its events (`kseg maintain` drops the oldest); runs and their counts
    longer.

    Raises:
        Refused: there is no ledger, or it is damaged.
        RetriableFailure: its store is not available.
    """
    ledger = Ledger.open(job.ledger, create=False)
    state = ledger.read(job.name)
    errors: dict[str, list[RunError]] = {}
    unplanned: list[RunHistory] = []
    entries = ledger.events(job.name, [RunRefused, Finished])
    finished = {entry.event.run_id: entry.event for entry in entries if isinstance(entry.event, Finished)}
    for event, error in _errors(entries):
        if event.run_id:
            errors.setdefault(event.run_id, []).append(error)
        else:
            mode = _mode(event.chain, state.runs)
            unplanned.append(RunHistory(None, mode, "not planned", error.at, error.at, errors=[error]))
    found = [*unplanned, *(_history(run, errors, finished) for run in state.runs.values())]
    found.sort(key=lambda one: one.began, reverse=True)
    wanted = [one for one in found if one.errors] if failed else found
    return HistoryReport(job.name, wanted[:limit], max(0, len(wanted) - limit) + (0 if failed else state.archive.runs))


def _errors(entries: list[Entry]) -> Iterator[tuple[RunRefused, RunError]]:
    for entry in entries:
        if isinstance(event := entry.event, RunRefused):
            yield event, RunError(event.code, event.message, _iso(event.at or entry.at), event.remedy)


def _mode(chain: str, runs: Mapping[str, RunState]) -> str | None:
    """The mode of an attempt that planned no run; None if no later attempt of its chain, named by its run, planned."""
    if chain == INCREMENTAL:
        return chain
    return runs[chain].mode if chain in runs else None


def _history(run: RunState, errors: Mapping[str, list[RunError]], finished: Mapping[str, Finished]) -> RunHistory:
    end = finished.get(run.run_id)
    return RunHistory(
        run=run.run_id,
        mode=run.mode,
        phase=run.phase,
        began=_iso(run.planned_at),
        ended=_iso(run.ended_at) if run.ended_at else None,
        seconds=round((run.ended_at - run.planned_at).total_seconds(), 3) if run.ended_at else None,
        offsets=sum(offsets.length for offsets in run.plan.offsets().values()),
        rows_in=run.accounted.rows_in if run.accounted else None,
        rows_out=run.accounted.rows_out if run.accounted else None,
        engine=end.engine if end else None,
        engine_reason=end.engine_reason if end else None,
        errors=errors.get(run.run_id, []),
    )


def _iso(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds")
