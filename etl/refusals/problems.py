"""Problems that `kseg status` finds and that are no errors of a command, by their code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.entry import Problem

_STOPPED: Final = "run the job again: the run continues, and nothing lands twice"
_AGAIN: Final = "run the same command again"

PROBLEMS: Final[Mapping[str, Problem]] = {
    "Interrupted": Problem("a run was stopped by Ctrl-C (SIGINT)", _STOPPED, _AGAIN),
    "Terminated": Problem("a run was stopped by SIGTERM, as schedulers send it", _STOPPED, _AGAIN),
    "freshness-unknown": Problem(
        "`reporting.freshness` is set, and the age of records that have not landed cannot be read: the account lacks "
        "READ on the topic, the brokers do not answer, or the records have no timestamps",
        "allow READ on the topic ([ACLs](acls.md)); where records have no timestamps, unset `reporting.freshness`",
    ),
    "interrupted": Problem(
        "a run ended without an error of its own: its process was killed (SIGKILL, out of memory), or its host died",
        f"{_STOPPED}; if it happens again, give the driver more memory, or let runs be shorter "
        "([`run.max_records`](configuration.md#run))",
    ),
    "not-fresh": Problem(
        "records older than `reporting.freshness` have not landed",
        "run the job; where it runs already, run it more often, or raise the limit ([freshness](../guides/reports.md))",
    ),
}
