"""Run ids, which rows and file names contain: an id shows to which ledger and job the run belongs.

    4be1f00c52-17-9a3e11d0               incremental run number 17 of a job
    4be1f00c52-8f3a09c27d5ab1e46c90      backfill or interval run, named by its request
    └ mark: hash of ledger id and job

The mark stays in a row's `_kseg_run` after the ledger has dropped the run's details. Releases up to 0.1 gave ids
without a mark, 32 hex digits: random ones, and for backfills the hash of the request, the same in every ledger.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import Final, NamedTuple

_MARK_DIGITS: Final = 10
_REQUEST_DIGITS: Final = 20
MARKED_RUN_ID: Final = r"([0-9a-f]{10})-(?:(\d{1,10})-[0-9a-f]{8}|[0-9a-f]{20})"
"""An id with a mark, as a regular expression for Python and Spark. Groups: mark, number of an incremental run."""

_MARKED: Final = re.compile(MARKED_RUN_ID)


class RunIdParts(NamedTuple):
    """number: of an incremental run; None in the id of a backfill or interval run."""

    mark: str
    number: int | None


def mark_of(ledger_id: str, job: str) -> str:
    """The mark with which all run ids of this job in this ledger begin."""
    return hashlib.sha256(f"{ledger_id}/{job}".encode()).hexdigest()[:_MARK_DIGITS]


def incremental_run_id(ledger_id: str, job: str, number: int) -> str:
    """A new id. The random part distinguishes runs with the same number if the ledger was restored in between."""
    return f"{mark_of(ledger_id, job)}-{number}-{secrets.token_hex(4)}"


def request_run_id(ledger_id: str, job: str, digest: str) -> str:
    """The id of this ledger's run for a request. digest: of the request, in hex digits."""
    return f"{mark_of(ledger_id, job)}-{digest[:_REQUEST_DIGITS]}"


def parse_run_id(run_id: str) -> RunIdParts | None:
    """The parts of an id with a mark; None for ids of releases up to 0.1, and for other text."""
    match = _MARKED.fullmatch(run_id)
    if match is None:
        return None
    return RunIdParts(match[1], None if match[2] is None else int(match[2]))
