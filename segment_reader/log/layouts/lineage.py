"""Selects the segments of a remote store that make up the log: each offset once, and none of a history that was given
up.

A store may hold an offset several times: an upload that was repeated under a new id, or the segments of two leaders
that rolled at different offsets (the new one begins with the segment in which the old one's uploads ended). And it may
hold offsets that the log no longer has: a leader uploaded them, and after an unclean election another one wrote others
in their place. Leader epochs decide (KIP-101, KIP-405):

    lineage    (epoch, first offset) of the log as it is: that of the broker's folder where there is one, else the one
               that the segment of the newest epoch brings along, the furthest and latest among these
    part       of a segment that follows the lineage: up to the first offset at which its epoch is another one
    chain      from the lowest offset on, always the part that reaches furthest; it is cut where the next one begins

What no leader epoch is known of (copies without that file) counts as following.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Generic, Protocol, TypeVar

from kseg.segment_reader.log.files.checkpoints import EpochStart

_FOREVER: Final = 1 << 63


class HasOffsets(Protocol):
    """The metadata of a segment. `end_offset` is the one after its last; `leader_epochs` those within it, as far as
    known; `uploaded_ms` when it was written, 0 unknown."""

    @property
    def base_offset(self) -> int: ...
    @property
    def end_offset(self) -> int: ...
    @property
    def leader_epochs(self) -> tuple[EpochStart, ...]: ...
    @property
    def uploaded_ms(self) -> int: ...


S = TypeVar("S", bound=HasOffsets)


@dataclass(frozen=True, slots=True)
class Link(Generic[S]):
    """A segment's place in the chain: it counts up to `end_offset`, and is read whole where that is its own."""

    segment: S
    end_offset: int

    @property
    def whole(self) -> bool:
        return self.end_offset == self.segment.end_offset


def newest(segments: Sequence[S]) -> S | None:
    """The segment whose leader epochs are the log's, as far as the store has them; None where no segment has any."""
    known = [segment for segment in segments if segment.leader_epochs]
    return max(known, key=lambda one: (one.leader_epochs[-1].epoch, one.end_offset, one.uploaded_ms), default=None)


def followed(segment: HasOffsets, lineage: Sequence[EpochStart]) -> int:
    """The offset up to which a segment follows the lineage; its base offset where it does not at all."""
    if not lineage or not segment.leader_epochs:
        return segment.end_offset
    ends = {one.epoch: later.start_offset for one, later in pairwise([*lineage, EpochStart(-1, _FOREVER)])}
    starts = dict(lineage)
    reached = segment.base_offset
    for one, later in pairwise([*segment.leader_epochs, EpochStart(-1, segment.end_offset)]):
        first, end = max(one.start_offset, segment.base_offset), min(later.start_offset, segment.end_offset)
        if first >= end:
            continue
        if one.epoch in starts and starts[one.epoch] <= first < ends[one.epoch]:
            reached = min(end, ends[one.epoch])
        elif one.epoch < lineage[0].epoch and end <= lineage[0].start_offset:
            reached = end  # older than the lineage's first epoch
        elif one.epoch == lineage[0].epoch and first < lineage[0].start_offset:
            reached = min(end, ends[one.epoch])
        else:
            break
        if reached < end:
            break
    return reached


def chain(segments: Sequence[S], lineage: Sequence[EpochStart] = (), *, below: int = _FOREVER) -> list[Link[S]]:
    """The segments that make up the log below an offset, ascending, each cut where the next one begins.

    A hole in the store stays one: the chain goes on at the next offset that is there.
    """
    parts = [(one, min(followed(one, lineage), below)) for one in segments if one.base_offset < below]
    left = sorted(
        (Link(one, end) for one, end in parts if end > one.base_offset), key=lambda link: link.segment.base_offset
    )
    found: list[Link[S]] = []
    best: Link[S] | None = None  # of those that begin at or below `position`
    position, number = -1, 0
    while number < len(left) or (best is not None and best.end_offset > position):
        reach = position
        if best is None or best.end_offset <= position:
            reach = max(position, left[number].segment.base_offset)
        while number < len(left) and left[number].segment.base_offset <= reach:
            best = left[number] if best is None else max(best, left[number], key=_preference)
            number += 1
        if best is None or best.end_offset <= position:
            continue
        if found and best.segment.base_offset < position:
            found[-1] = Link(found[-1].segment, best.segment.base_offset)
        found.append(best)
        position = best.end_offset
    return found


def _preference(link: Link[S]) -> tuple[int, int, int]:
    """The furthest; of these the one that needs no cut, or the smallest; of equal ones the last that was written."""
    return link.end_offset, link.segment.base_offset, link.segment.uploaded_ms
