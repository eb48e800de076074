"""Reads the result of a driver from the ledger, if its output cannot be read from here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from kseg_airflow.assets import landed_tables, runs_of
from kseg_airflow.compat import AirflowException
from kseg_airflow.drivers.handles import Handle
from kseg_airflow.exit_codes import ANOTHER_RUN_ACTIVE, DONE, REFUSED
from kseg_airflow.outcomes import Outcome

# Many more than the intervals that may have been planned, side by side with the driver's, while it ran.
_RUNS: Final = "10000"


def completed(outcome: Outcome, driver: Handle, status: Callable[..., Outcome], dead: Callable[[str], bool]) -> Outcome:
    """The outcome with the document that the driver printed: the report of its run, or who holds the lease.

    Of a driver that found nothing to do the ledger has nothing, and there is no document.

    status: asks `kseg status JOB --json` with more words. dead: whether the owner of a lease is known to be gone.

    Raises:
        OSError: the name of the driver cannot be looked up.
        AirflowException: the ledger cannot be asked. The driver's end stays untaken, so the next try asks again.
    """
    if outcome.exit_code == DONE:
        runs = _asked(status, "--runs", _RUNS)["runs"]
        ended = [run for run in runs if run["ended_at"] and driver.is_owner(run["owner"])]
        if not ended:
            return outcome
        last = max(ended, key=lambda run: str(run["ended_at"]))
        return replace(outcome, document=_asked(status, "--run", str(last["run_id"])))
    if outcome.exit_code == ANOTHER_RUN_ACTIVE:
        leases = sorted(_asked(status)["leases"], key=lambda lease: (not dead(lease["owner"]), lease["until"]))
        now = datetime.now(UTC).isoformat()
        owner, until = (leases[0]["owner"], leases[0]["until"]) if leases else ("", now)  # by now it has run out
        error = {"message": "another run holds the lease", "address": {"owner": owner, "until": until}}
        return replace(outcome, document={"error": error, "exit_code": ANOTHER_RUN_ACTIVE})
    return outcome


def landed_before(mark: str, report: Mapping[str, Any], status: Callable[..., Outcome]) -> list[dict[str, Any]]:
    """The reports of the runs that drivers of this mark have ended, the oldest first, without those of `report`, which
    may be of a drain.

    A report of nothing to do names the run that has landed the interval: it is one of those that are looked for.

    Raises:
        AirflowException: the ledger cannot be asked.
    """
    runs = _asked(status, "--runs", _RUNS)["runs"]
    own = runs_of(report) if landed_tables(report) else []
    ended = [
        run for run in runs if run["ended_at"] and run["run_id"] not in own and _is_marked(str(run["owner"]), mark)
    ]
    ended.sort(key=lambda run: str(run["ended_at"]))
    return [_asked(status, "--run", str(run["run_id"])) for run in ended]


def _is_marked(owner: str, mark: str) -> bool:
    return owner.rpartition(":")[2].startswith(f"{mark}-")


def _asked(status: Callable[..., Outcome], *words: str) -> dict[str, Any]:
    told = status(*words)
    # Exit code 3 also says that the job needs a person, with the document of the status.
    if told.document is None or told.error or told.exit_code not in (DONE, REFUSED):
        why = told.error.get("message") or told.detail or f"exit {told.exit_code}"
        raise AirflowException(f"the driver has ended, and its result cannot be read from the ledger: {why}")
    return told.document
