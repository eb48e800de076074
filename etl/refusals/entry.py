"""Entries of the catalogue: a refusal, another error, a problem.

found: what happened, and its usual causes. remedy: what to do. Both are Markdown of a page in `docs/reference`; JOB is
the job file; RUN is a run's id, or a unique beginning of it or of its part after the first dash. `kseg ingest JOB`
stands for the run's own command: for a backfill or an interval, the same `kseg backfill`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kseg.etl.refusals.exit_codes import ExitCode


@dataclass(frozen=True, slots=True)
class Case:
    """What a refusal prints. `{name}` stands for one of the values that the raise site gives, or of its address."""

    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """All that is said of a refusal, whose exit code is 3.

    cases: the only one, or several by name.
    """

    found: str
    remedy: str
    cases: Case | Mapping[str, Case]

    @property
    def by_name(self) -> Mapping[str, Case]:
        """The cases; an only one has the name ""."""
        return {ONLY: self.cases} if isinstance(self.cases, Case) else self.cases


@dataclass(frozen=True, slots=True)
class Kind:
    """All that is said of an error that has a class of its own and no code, besides the message of its instances.

    exit_code: of errors that no setting and no retry can mend; `jobs.invocation.failures` has the rule. Errors of
    `etl` and `jobs` have it by their class as well, which a test compares.
    printed: the remedy in one line of plain text, where an instance has none: errors of the client and of the decoder
    know no job file.
    """

    found: str
    remedy: str
    exit_code: ExitCode = ExitCode.FAILED
    printed: str | None = None


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem that `kseg status` finds and that is no error of a command. printed: as of `Kind`."""

    found: str
    remedy: str
    printed: str | None = None


ONLY: Final = ""
