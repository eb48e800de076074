"""The explanation of an error, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """found: what happened, and its usual causes. remedy: what to do.

    Both are Markdown of a page in `docs/reference`.
    """

    found: str
    remedy: str
