"""Errors of the ledger itself; a damaged or newer ledger is `etl.errors.Refused` with a `ledger-…` code.

codes: ledger-damaged (events are missing or contradict each other), ledger-newer (written by a later release),
ledger-foreign (the Delta table at this path is not a ledger), ledger-missing (there is none, and it may not be
created), ledger-unsafe-store (the store's options disable put-if-absent).
"""

from __future__ import annotations

from kseg.etl.errors import AddressValue, AnotherRunActive, KsegError


class IllegalEvent(KsegError):
    """An event that is not allowed in the ledger's state, such as `accounted` for an abandoned run.

    Nothing was written. There is a bug, or a process without a lease tried to write.
    """

    def __init__(self, message: str, *, remedy: str | None = None, **address: AddressValue | None) -> None:
        super().__init__(message, remedy=remedy, **address)


class LeaseLost(AnotherRunActive):
    """The lease of this process is no longer held: it was taken over, released, or has expired.

    The process must stop without another commit: the new holder of the lease continues the run.
    """
