"""The nearest of the known words to a misspelt one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """`did you mean …?` for the nearest of the known words, without regard to case; None if none is near."""
    words = {candidate.lower(): candidate for candidate in known}
    nearest = difflib.get_close_matches(word.lower(), list(words), n=1, cutoff=0.6)
    return f"did you mean {words[nearest[0]]}?" if nearest else None
