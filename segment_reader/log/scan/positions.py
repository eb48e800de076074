"""Positions in a log, as plans and readers exchange them.

The compiled code that reads logs is not imported: plans are made without it.
"""

from __future__ import annotations

from typing import NamedTuple


class PositionHint(NamedTuple):
    """A byte position in the .log of the segment with this base offset: a hint, good only where a batch begins."""

    segment: int
    position: int


class TimedOffset(NamedTuple):
    """A record's offset and its timestamp in ms; -1 if it has no timestamp."""

    offset: int
    timestamp: int
