"""How many of a range's records were decoded, set aside or dropped. Tasks count, and the ledger keeps the sums."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class DecodingCounts:
    """Records by result; `decoded`, `dead` and `dropped` add up to the records that were read.

    decoded: rows of decoded columns. dead: records that went to the dead-letter table. dropped: tombstones that
    `tombstones: drop` left out.
    nulled: of `decoded`, rows with a null in place of what could not be decoded or broke an expectation. warned: of
    `decoded`, rows that broke an expectation with `else: warn`.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    decoded: int = 0
    dead: int = 0
    dropped: int = 0
    nulled: int = 0
    warned: int = 0

    @property
    def total(self) -> int:
        return self.decoded + self.dead + self.dropped

    def __add__(self, other: DecodingCounts) -> DecodingCounts:
        return DecodingCounts(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(self)))


def added(one: DecodingCounts | None, other: DecodingCounts | None) -> DecodingCounts | None:
    """The sum of what is known."""
    return other if one is None else one if other is None else one + other
