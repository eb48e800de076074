"""The error with which a run ended, as a note in the ledger: `kseg status` and `kseg runs` show it later."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from kseg.client.errors import KafkaError
from kseg.etl.errors import AnotherRunActive, ConfigurationError, KsegError, Refused, summary
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.state import JobState
from kseg.segment_reader.log.errors import LogFileError


def record_failure(lease: Lease, error: Exception) -> None:
    """Write the error of a run that ends to the ledger, if the lease is still held and the store answers.

    Raises:
        LeaseLost: instead of a refusal. It may be caused by the other run: that one's rows in a table make this run's
            state of the ledger look old.
    """
    if isinstance(error, AnotherRunActive):
        return

    def decide(state: JobState) -> Sequence[ev.Event]:
        run = state.unfinished(lease.chain)
        return [failure_note(error, run.run_id if run is not None else "")]

    try:
        lease.transition(decide)
    except LeaseLost as lost:
        if isinstance(error, Refused):
            raise lost from error
    except KsegError:
        pass  # the error itself is reported


def failure_note(error: Exception, run_id: str) -> ev.RunRefused:
    """An error as the ledger's event. Of one that is not ours only the class: its text may quote anything."""
    typed = isinstance(error, KsegError | KafkaError | LogFileError)
    return ev.RunRefused(
        run_id=run_id,
        code=error.code if isinstance(error, Refused) else type(error).__name__,
        message=_message(error) if typed else "an unexpected error: its log has the details",
        remedy=getattr(error, "remedy", None) if typed else None,
        at=datetime.now(UTC),
    )


def _message(error: Exception) -> str:
    if isinstance(error, Refused):
        return str(error)
    if isinstance(error, ConfigurationError):
        return "; ".join(f"{fault.path}: {fault.message}" if fault.path else fault.message for fault in error.faults)
    return summary(error).removeprefix(f"{type(error).__name__}: ")
