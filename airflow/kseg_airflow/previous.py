"""Attaches a task to the driver that an earlier try of it, or an earlier call of the same try, has left, or stops it.

runs, or unknown    attach; one that was stopped or had other arguments is waited for, and another one is started
ended, not taken    by the same try: take its result. By an earlier one: take a success; a failure is tried again,
                    since its cause may have been corrected
a success, taken    by an earlier try that was no more when Airflow recorded its end: deliver it again, so that
                    asset events are not lost. After a clear, or in a DAG run that was deleted and made again:
                    start another one
"""

from __future__ import annotations

import hashlib
import json
import socket
from dataclasses import dataclass, replace
from typing import Any

from kseg_airflow.compat import AirflowException, clear_of, logical_identity, this_try
from kseg_airflow.drivers.handles import Handle, handle_of
from kseg_airflow.exit_codes import DONE
from kseg_airflow.outcomes import Outcome
from kseg_airflow.run_folder import DriverRecord, RunFolder
from kseg_airflow.watching import outcome_so_far


@dataclass(frozen=True, slots=True)
class Asked:
    """A task's request to a driver, and who asks: its try, and since which clear (`compat.clear_of`)."""

    hash: str
    follower: str
    clear: str

    @classmethod
    def by(cls, context: Any, asked: str) -> Asked:
        return cls(asked, this_try(context), clear_of(context))


@dataclass(frozen=True, slots=True)
class Previous:
    """A driver that is not started again. outcome: its end, where it is known already."""

    handle: Handle
    outcome: Outcome | None = None


def mark_of(context: Any) -> str:
    """The mark that the drivers of a task instance have in their names in the ledger, until it is cleared or its DAG
    run is made again, and no others: by it a try knows what earlier ones have landed although it does not see their run
    folder.
    """
    text = json.dumps([*logical_identity(context).values(), clear_of(context)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def previous_driver(folder: RunFolder, asked: Asked, grace: float, log: Any) -> Previous | None:
    """The driver to follow; None where another one is to be started. The caller has the folder's lock.

    Raises:
        AirflowException: the previous driver does not stop.
        OSError: the status of a driver that is not to be followed cannot be read.
    """
    record = folder.record()
    if record is None:
        return None
    handle, same = handle_of(record.handle), record.asked == asked.hash and not record.stopped
    if record.taken:
        success = folder.taken(record) if same and record.clear == asked.clear else None
        if success is None:
            return None
        log.info("A previous try has read its driver's result, and ended before Airflow had it: delivering it again.")
        return Previous(handle, Outcome(**success))
    outcome = outcome_so_far(handle, log) if same else handle.poll()
    if outcome is None and not same:
        log.info("The driver of a previous try %s; waiting for its end.", _why(record))
        if not handle.stop_detached(grace):  # the task may be out of time before that
            raise AirflowException("the driver of the previous try does not stop; trying again later")
        return None
    if outcome is None:
        folder.keep(replace(record, follower=asked.follower, clear=asked.clear))
        return Previous(handle)
    if outcome.exit_code is None or not same:
        log.info("The driver of a previous try is gone; continuing from the ledger.")
        return None
    if outcome.exit_code == DONE or record.follower == asked.follower:
        log.info("The driver of a previous try has ended; taking its result.")
        return Previous(handle, outcome)
    log.info("The driver of a previous try failed (exit %d); starting another one.", outcome.exit_code)
    return None


def _why(record: DriverRecord) -> str:
    return "was stopped" if record.stopped else "had other arguments"


def not_shared(folder: RunFolder, triggerer: object) -> str:
    """Why a deferred task cannot go on: the record of its driver is not where it looks."""
    host = f"the triggerer ({triggerer})" if triggerer else f"the worker that resumed it ({socket.gethostname()})"
    return (
        f"run_dir is not shared: {host} cannot read {folder.path}/record.json, which has the task's driver. Set "
        "run_dir (KSEG_RUN_DIR) to a folder that all workers and triggerers share, as one user; or deferrable=False"
    )
