"""The explanation of an error, as a value."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Explanation:
    """found: what happened, and its usual causes. remedy: what to do. Both are Markdown of a page in `docs/reference`.

    exit_code: that of a command that ends with the error; None for a problem of `kseg status`.
    """

    found: str
    remedy: str
    exit_code: int | None = None
