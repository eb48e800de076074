"""A probable position of a batch in a log: plans pass it to readers, which check it (see `lookup`).

A module of its own, since plans are made without the compiled code that reads logs.
"""

from __future__ import annotations

from typing import NamedTuple


class PositionHint(NamedTuple):
    """A byte position in the .log of the segment with this base offset: a hint, good only where a batch begins."""

    segment: int
    position: int
