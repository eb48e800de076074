"""What a drain says is left up to its ends."""

from __future__ import annotations

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.run.drain import _unread

TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.mark.parametrize(
    ("landed", "given_up", "end", "unread"),
    [
        ([(0, 5), (6, 100)], [], 100, 1),  # a backfill holds one offset; all behind it has landed
        ([(0, 5), (6, 100)], [], 50, 1),
        ([(0, 5), (6, 100)], [], 120, 21),
        ([(0, 5), (6, 100)], [(5, 6)], 100, 0),
        ([(0, 5)], [(7, 10)], 10, 2),
        ([(0, 100)], [], 40, 0),
        ([], [], 0, 0),
    ],
)
def test_what_has_landed_beyond_the_frontier_is_not_unread(
    landed: list[tuple[int, int]], given_up: list[tuple[int, int]], end: int, unread: int
) -> None:
    state = JobState(
        "job",
        "l",
        bases={TP: 0},
        landed_offsets={TP: OffsetSet.of(landed)},
        given_up_offsets={TP: OffsetSet.of(given_up)},
    )
    assert _unread(state, {TP: end, OTHER: 10}) == unread, "a partition without a base counts as nothing"
