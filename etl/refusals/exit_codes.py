"""Exit codes of `kseg`: what each means, who acts, and whether the same command may succeed later.

Views of this table: `kseg explain 4`, the site's page of errors, the status of a failed run on its page, the tables of
README.md and docs/guides/monitoring.md, and `airflow/kseg_airflow/exit_codes.py`. `python -m
kseg.jobs.website.exit_codes` writes those that are files of the repository. Which errors end with which code is decided
by the classes of `etl.errors`, and for errors of the client and the decoder by their entries in `etl.refusals.kinds`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple, Self


class Meaning(NamedTuple):
    """What an exit code says. The texts are Markdown.

    label: the status of a failed run on its page. found, remedy: what happened, and what to do. acts: who has to act.
    retriable: whether the same command may succeed later, so that schedulers retry it.
    """

    label: str
    found: str
    remedy: str
    acts: str
    retriable: bool = False


_A_PERSON: Final = "a person: the message says what was found and what to do; `kseg explain CODE` says more"


class ExitCode(IntEnum):
    """The exit code of a `kseg` process. The numbers are public, because schedulers evaluate them."""

    meaning: Meaning

    DONE = 0, Meaning("Done", "done, or nothing to do", "", "nobody")
    BAD_CONFIGURATION = (
        2,
        Meaning(
            "Bad configuration",
            "invalid job file or arguments, a login that Kafka or a schema registry rejects, wrong endpoint or "
            "credentials of an object store, or an object store without put-if-absent; all errors are listed",
            "fix them and run again",
            _A_PERSON,
        ),
    )
    REFUSED = (
        3,
        Meaning(
            "Refused",
            "refused: ledger, source, tables and group do not agree, data is lost, or records cannot be decoded",
            "the message names what was found and the command that resolves it",
            _A_PERSON,
        ),
    )
    RETRIABLE = (
        4,
        Meaning(
            "Try again",
            "a broker or an object store is not available",
            "run the same command again; it continues the unfinished run",
            "nobody at first: a broker or a store was not available. Let the scheduler retry; alert if retries fail "
            "for longer than you accept",
            retriable=True,
        ),
    )
    ANOTHER_RUN_ACTIVE = (
        5,
        Meaning(
            "Another run is active",
            "another run of this job is active",
            "wait; if the other run is dead, add `--take-over`",
            "nobody: another run is active. Alert if it lasts longer than a run may take",
            retriable=True,
        ),
    )
    FAILED = 1, Meaning("Failed", "anything else", "", _A_PERSON)

    def __new__(cls, number: int, meaning: Meaning) -> Self:
        code = int.__new__(cls, number)
        code._value_ = number
        code.meaning = meaning
        return code
