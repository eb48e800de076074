"""App transactions of a Delta table, of all apps at once: delta-rs answers for one app id that is known beforehand.

(Delta protocol, "Transaction Identifiers".) The last transaction of an app counts.
"""

from __future__ import annotations

from typing import Final

from kseg.etl.delta_log.actions import AppTransaction
from kseg.etl.delta_log.table_log import DeltaLog
from kseg.etl.errors import RetriableFailure

MOST_COMMITS: Final = 20
"""Commits that are read one by one; a checkpoint and the commits after it are fewer requests than more of them."""


def transactions_of(log: DeltaLog, app: str, newest: int, after: int | None = None) -> dict[str, int]:
    """The last version of this app and of each app below it (`app/…`), by app id.

    newest: version of the snapshot. after: only of commits after this version, unless the log does not reach back to it
    or there are many; None: of all commits.

    Raises:
        RetriableFailure: log entries were removed while they were read.
        What `DeltaLog` raises.
    """
    if after is not None and newest - after <= MOST_COMMITS:
        entries = log.commits(after + 1, newest)
        if entries is not None:
            actions = (action for entry in entries for action in entry.actions)
            found = {action.app_id: action.version for action in actions if isinstance(action, AppTransaction)}
            return _of(found, app)
    snapshot = log.at(newest)
    if snapshot is None:
        raise RetriableFailure("entries of the table's log were removed while it was read", table=log.folder.table)
    return _of({app_id: one.version for app_id, one in snapshot.transactions.items()}, app)


def _of(found: dict[str, int], app: str) -> dict[str, int]:
    return {app_id: version for app_id, version in found.items() if app_id == app or app_id.startswith(f"{app}/")}
