"""Accept a changed source (a recreated topic, a truncated log, another cluster), because of which runs are refused.

Rows of the old source stay in the tables, with the id of the run that landed them; for each run, the ledger keeps the
generation of every partition. The next run reads from the reopened offsets on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from kseg.etl.config.job import Job
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.source_acceptance import NamedSource, accept, landed_above
from kseg.etl.planning.source_identity import ends_of_epochs
from kseg.etl.run.context import JobContext
from kseg.etl.telemetry.progress import Progress


@dataclass(frozen=True, slots=True)
class ReopenedPartition:
    """A partition whose offsets from `offset` on are read again, as records of a new generation.

    landed: number of offsets at or above `offset` that had landed; their rows stay, as rows of older generations.
    """

    topic: str
    partition: int
    offset: int
    generation: int
    landed: int


@dataclass(slots=True)
class SourceReport:
    """The result of `kseg repair --accept-source`."""

    job: str
    status: Literal["accepted", "nothing-to-do", "dry-run"]
    reason: str = ""
    reopened: list[ReopenedPartition] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        return asdict(self)


def accept_source(
    job: Job,
    named: Sequence[str],
    *,
    dry_run: bool = False,
    take_over: bool = False,
    progress: Progress | None = None,
) -> SourceReport:
    """Record the current source, and reopen the offsets that now belong to other records. Only the ledger is written.

    named: TOPIC, TOPIC:PARTITION or TOPIC:PARTITION:OFFSET, as `NamedSource` describes them.

    Raises:
        ConfigurationError: `named` is invalid, or does not fit the source.
        Refused: an unfinished run has planned offsets that would be reopened, or there is no ledger.
        AnotherRunActive: an incremental run is active.
    """
    words = [NamedSource.parse(word) for word in named]
    with JobContext.open(job, progress, ledger="required") as context:

        def decide(state: JobState) -> ev.SourceAccepted | None:
            snapshot = context.inputs.bounds(state)
            return accept(snapshot, state, ends_of_epochs(context.inputs.logs, snapshot, state), words)

        if dry_run:
            state = context.clients.read_state()
            return _report(job, state, decide(state), "dry-run")
        decided: list[tuple[JobState, ev.SourceAccepted | None]] = []

        def transition(state: JobState) -> Sequence[ev.Event]:
            event = decide(state)
            decided.append((state, event))
            return [] if event is None else [event]

        with context.run_lease(ev.INCREMENTAL, take_over=take_over) as lease:
            lease.transition(transition)
        return _report(job, *decided[-1], "accepted")


def _report(
    job: Job, state: JobState, event: ev.SourceAccepted | None, status: Literal["accepted", "dry-run"]
) -> SourceReport:
    if event is None:
        return SourceReport(job.name, "nothing-to-do", notes=["the source is the one in the ledger"])
    landed = landed_above(state, event.reopened)
    reopened = [
        ReopenedPartition(*tp, first, state.generation(tp) + 1, landed[tp]) for tp, first in event.reopened.items()
    ]
    report = SourceReport(job.name, status, event.reason, reopened)
    if not reopened:
        report.notes.append("no offset is reopened: all offsets that have landed count as unchanged")
    elif any(landed.values()):
        report.notes.append("rows of reopened offsets stay in their tables, as rows of the older generation")
    return report
