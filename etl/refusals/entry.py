"""One refusal as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Case:
    """What a refusal prints. `{name}` stands for one of the values that the raise site gives, or of its address."""

    message: str
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """All that is said of a refusal.

    found: what happened, and its usual causes. remedy: what to do. Both are Markdown of a page in `docs/reference`;
    JOB is the job file; RUN is a run's id, or a unique beginning of it or of its part after the first dash. `kseg
    ingest JOB` stands for the run's own command: for a backfill or an interval, the same `kseg backfill`.
    cases: the only one, or several by name. None: a class of its own has the sentences.
    """

    found: str
    remedy: str
    cases: Case | Mapping[str, Case] | None = None

    @property
    def by_name(self) -> Mapping[str, Case]:
        """The cases; an only one has the name ""."""
        return {ONLY: self.cases} if isinstance(self.cases, Case) else self.cases or {}


ONLY: Final = ""
