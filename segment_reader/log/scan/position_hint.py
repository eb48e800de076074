"""Where something in a log probably begins: what plans hand to readers, who check it (see `lookup`).

A module of its own, since plans are made without the compiled code that walks over logs.
"""

from __future__ import annotations

from typing import NamedTuple


class Place(NamedTuple):
    """A byte position in the .log of the segment with this base offset: a hint, good only where a batch begins."""

    segment: int
    position: int
