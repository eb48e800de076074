"""The error with which a run ended, as a note in the ledger: `kseg status` and `kseg runs` show it later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from kseg.client.errors import KafkaError
from kseg.etl.config.redaction import Redactor
from kseg.etl.errors import AnotherRunActive, ConfigurationError, KsegError, Refused, summary
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.lease import Lease
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import DEADLINE
from kseg.segment_reader.log.errors import LogFileError

_STOP_DEADLINE: Final = 3.0
"""Seconds: who stops a process kills it before long, and the lease is yet to be released."""


def record_failure(lease: Lease, error: BaseException, secrets: Iterable[str]) -> None:
    """Write the error of a run that ends to the ledger, if the lease is still held and the store answers.

    error: also a signal's, that the run was stopped by. secrets: what the ledger must not have (`Job.secret_values`).

    Raises:
        LeaseLost: instead of a refusal, or of rows that do not fit a table. It may be caused by the other run: that
            one's rows in a table make this run's state of the ledger look old, and its columns do not fit.
    """
    if isinstance(error, AnotherRunActive):
        return

    deadline = DEADLINE if isinstance(error, Exception) else _STOP_DEADLINE
    hidden = Redactor.of(secrets)

    def decide(state: JobState) -> Sequence[ev.Event]:
        run = state.unfinished(lease.chain)
        note = failure_note(error, run.run_id if run is not None else "")
        return [replace(note, message=hidden.clean(note.message), remedy=hidden.clean(note.remedy))]

    try:
        lease.transition(decide, deadline=deadline)
    except LeaseLost as lost:
        if isinstance(error, Refused | ConfigurationError):
            raise lost from error
    except KsegError:
        pass  # the error itself is reported


def failure_note(error: BaseException, run_id: str) -> ev.RunRefused:
    """An error as the ledger's event. Of one that is not ours only the class: its text may quote anything."""
    if (stop := _stop(error)) is not None:
        interrupted = isinstance(stop, KeyboardInterrupt)
        code = "Interrupted" if interrupted else type(stop).__name__.removesuffix("Error")
        message = f"stopped by {'Ctrl-C (SIGINT)' if interrupted else 'a signal (SIGTERM)'}"
        return ev.RunRefused(run_id=run_id, code=code, message=message, at=datetime.now(UTC))
    typed = isinstance(error, KsegError | KafkaError | LogFileError)
    remedy = error.to_do if isinstance(error, KsegError) else getattr(error, "remedy", None) if typed else None
    return ev.RunRefused(
        run_id=run_id,
        code=error.code if isinstance(error, Refused) else type(error).__name__,
        message=_message(error) if typed else "an unexpected error: its log has the details",
        remedy=remedy,
        at=datetime.now(UTC),
    )


def _stop(error: BaseException) -> BaseException | None:
    """The error that stopped the run, also if a call that it interrupted has raised another error."""
    cause: BaseException | None = error
    while cause is not None and isinstance(cause, Exception):
        cause = cause.__context__
    return cause


def _message(error: BaseException) -> str:
    if isinstance(error, Refused | ConfigurationError):
        return error.without_remedy
    return summary(error).removeprefix(f"{type(error).__name__}: ")
