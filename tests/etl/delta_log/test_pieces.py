"""Ranges of a file in few requests."""

from __future__ import annotations

import random

import pytest

from kseg.etl.delta_log.pieces import GAP, TAIL, WHOLE, Pieces, merged


def of(content: bytes) -> tuple[Pieces, list[tuple[int, int]]]:
    asked: list[tuple[int, int]] = []

    def read(first: int, length: int) -> bytes:
        asked.append((first, length))
        return content[first : first + length]

    return Pieces(len(content), read), asked


@pytest.mark.parametrize("size", [0, 1, WHOLE, WHOLE + 1, 3 * WHOLE])
def test_any_range_is_what_the_file_has(size: int) -> None:
    content = random.Random(size).randbytes(size)
    pieces, asked = of(content)
    assert len(asked) == 1
    choice = random.Random(1)
    for _ in range(50):
        first, length = choice.randrange(size + 1), choice.choice([0, 1, 1000, size])
        assert pieces.seek(first) == first
        assert pieces.read(length) == content[first : first + length]
        assert pieces.tell() == min(size, first + length)
    assert pieces.seek(-min(size, 5), 2) == size - min(size, 5)
    assert pieces.read() == content[size - min(size, 5) :]
    assert size > WHOLE or len(asked) == 1, "a small file is read whole"


def test_fetched_ranges_are_not_asked_for_again() -> None:
    content = bytes(3 * WHOLE)
    pieces, asked = of(content)
    assert asked == [(len(content) - TAIL, TAIL)]
    pieces.fetch([(10, 20), (30, 40), (40 + GAP + 1, 50 + GAP)])
    assert asked[1:] == [(10, 30), (41 + GAP, 9)]
    for first, last in [(10, 20), (12, 38), (41 + GAP, 50 + GAP)]:
        pieces.seek(first)
        assert len(pieces.read(last - first)) == last - first
    assert len(asked) == 3
    pieces.drop()
    pieces.seek(10)
    pieces.read(1)
    assert asked[3:] == [(10, 1)]


def test_a_file_that_is_shorter_than_listed_is_an_error() -> None:
    with pytest.raises(ValueError, match="2 bytes before"):
        Pieces(12, lambda first, length: bytes(10)[first : first + length])


def test_near_ranges_are_one() -> None:
    assert merged([(30, 40), (0, 10), (5, 12)], gap=10) == [(0, 12), (30, 40)]
    assert merged([(0, 10), (20, 21)], gap=10) == [(0, 21)]
    assert merged([]) == []
