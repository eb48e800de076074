"""Losses, and possible losses, that plans have put on record, in words for reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kseg.etl.config.times import format_millis
from kseg.etl.errors import listed
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.state import JobState


def planned_losses(events: Iterable[ev.Event]) -> Iterator[str]:
    """The losses that the events of one plan put on record."""
    for event in events:
        if isinstance(event, ev.OffsetsGivenUp) and event.reason == "retention":
            yield f"lost: the log no longer has {listed(event.ranges)}, which no run has read"
        if isinstance(event, ev.BoundaryNotPinned):
            starts = listed(f"{tp} {offset}" for tp, offset in sorted(event.log_starts.items()))
            yield (
                f"possibly lost: records at or after {format_millis(event.time_ms)} may have been removed before the "
                f"log's start ({starts}); the boundary is not pinned"
            )


def recorded_losses(state: JobState) -> Iterator[str]:
    """The losses that the ledger has on record and that have not landed since."""
    given_up = [r for tp in sorted(state.given_up_offsets) for r in state.given_up(tp).ranges(tp)]
    if given_up:
        yield f"no run has read {listed(given_up)}: they were skipped, and could not be compared"
    for time_ms in sorted({at for _, at in state.unproved}):
        around = state.neighbours(time_ms)
        possible: list[OffsetRange] = []
        for (tp, at), log_start in sorted(state.unproved.items()):
            if at == time_ms:
                below = OffsetSet.single(around.get(tp, (0, None))[0], log_start)
                possible += below.subtract(state.landed(tp)).ranges(tp)
        if possible:
            yield (
                f"possibly lost to the intervals that meet at {format_millis(time_ms)}: {listed(possible)}, which the "
                "log no longer had when they were planned"
            )
