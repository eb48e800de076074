"""Errors of the ledger itself; a damaged or newer ledger is `etl.errors.Refused` with a `ledger-…` code.

codes: ledger-damaged (events are missing or contradict each other), ledger-newer (written by a later release),
ledger-foreign (the Delta table at this path is no ledger), ledger-missing (none there and none may be created),
ledger-unsafe-store (the store's options switch put-if-absent off).
"""

from __future__ import annotations

from kseg.etl.errors import AddressValue, AnotherRunActive, KsegError


def ledger_lost_remedy(group: str | None) -> str:
    """What a person can do where this ledger is not the one with which a job has landed rows, by `kseg` commands."""
    anew = (
        "`kseg ingest JOB --accept-group-offsets` begins a new one at the group's offsets instead: rows that landed "
        "after the last commit of offsets land again"
    )
    rebuild = (
        "set `ledger:` to that ledger; if it is lost, `kseg repair JOB --rebuild-ledger` makes one from the tables"
    )
    return rebuild if group is None else f"{rebuild}. {anew}"


class IllegalStep(KsegError):
    """An event that may not follow what the ledger holds, such as an account for a run that was abandoned.

    Nothing was written. The program is wrong, or a process without a lease tried to write.
    """

    def __init__(self, message: str, *, remedy: str | None = None, **address: AddressValue | None) -> None:
        super().__init__(message, remedy=remedy, **address)


class LeaseLost(AnotherRunActive):
    """The lease that this work was done under is no longer held: it was taken over, released, or it ran out.

    The work must stop without another commit: the present holder of the lease continues the run.
    """
