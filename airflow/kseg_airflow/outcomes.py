"""Outcomes of drivers, and the resulting states of Airflow tasks.

`exit_codes` has kseg's codes, and which of them are retried. A driver that was killed, or lost with its host, is
retried, too: the next try continues the run from the ledger.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, NamedTuple

from kseg_airflow.compat import AirflowException, AirflowFailException
from kseg_airflow.exit_codes import RETRIED

NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
SIGNALLED: Final = 128  # a shell adds the signal's number

_ENDED_BY_A_SIGNAL: Final = frozenset({"Terminated", "Interrupted"})


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a driver.

    exit_code: None if it is unknown (the host was restarted, or the driver was killed together with its shell).
    document: the output of `--json`: the result, or {"error": …, "exit_code": n}; None if there is none.
    detail: a message of the system that ran the driver (YARN's diagnostics, a pod's reason).
    """

    exit_code: int | None
    document: dict[str, Any] | None = None
    detail: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def error(self) -> dict[str, Any]:
        """The error that the driver reported; empty if there is none."""
        found = (self.document or {}).get("error")
        return found if isinstance(found, dict) else {}

    @property
    def killed(self) -> bool:
        """Whether the driver was killed from outside, and did not fail by itself."""
        if self.exit_code is None or self.exit_code < 0:
            return True
        if self.exit_code > SIGNALLED and not self.error:
            return True
        return self.error.get("kind") in _ENDED_BY_A_SIGNAL


class Look(NamedTuple):
    """The state of a driver at one poll.

    outcome: None while the driver runs. progress: its progress as a log line; None if unknown.
    """

    outcome: Outcome | None = None
    progress: str | None = None


def failure_of(outcome: Outcome, what: str, *, log: str | None = None) -> AirflowException:
    """The exception that a failed task raises; its class decides whether Airflow retries the task.

    what: the command's name in the message. log: the location of the driver's output.
    """
    text = f"{what}: {_told(outcome)}"
    if log:
        text += f"\nThe driver's log: {log}"
    return AirflowException(text) if worth_a_retry(outcome) else AirflowFailException(text)


def worth_a_retry(outcome: Outcome) -> bool:
    """Whether a retry may succeed. Not for exit code 1: an unexpected error, or rows that differ, must be checked."""
    return outcome.killed or outcome.exit_code in RETRIED


def _told(outcome: Outcome) -> str:
    error = outcome.error
    lines = []
    if error:
        code = f" ({error['code']})" if error.get("code") else ""
        address = ", ".join(f"{name}={value}" for name, value in (error.get("address") or {}).items())
        lines.append(f"{error.get('message', 'failed')}{code}" + (f" [{address}]" if address else ""))
        for fault in error.get("faults") or []:
            place = fault.get("path") or "(document)"
            line = f" (line {fault['line']})" if fault.get("line") is not None else ""
            lines.append(f"  {place}{line}: {fault.get('message')}")
            if fault.get("remedy"):
                lines.append(f"    do: {fault['remedy']}")
        if error.get("cause"):
            lines.append(f"cause: {error['cause']}")
        if error.get("remedy") and not error.get("faults"):
            lines.append(f"do: {error['remedy']}")
    elif outcome.exit_code is None:
        lines.append("the driver is gone and left no result; the next try continues the run from the ledger")
    elif outcome.exit_code == NOT_FOUND:
        lines.append("the command was not found; set it by the operator's `kseg`, or by KSEG_BINARY")
    elif outcome.exit_code == NOT_EXECUTABLE:
        lines.append("the command cannot be executed; check the operator's `kseg`, or KSEG_BINARY")
    elif outcome.killed:
        lines.append(
            f"the driver was killed (exit {outcome.exit_code}); the next try continues the run from the ledger"
        )
    else:
        lines.append(f"exit {outcome.exit_code}")
    if (outcome.document or {}).get("log"):
        lines.append(f"tracebacks, on the driver's host: {(outcome.document or {})['log']}")
    if outcome.detail:
        lines.append(outcome.detail)
    return "\n".join(lines)
