"""How many of a range's records were decoded, set aside or dropped. Tasks count, and the ledger keeps the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class DecodingCounts:
    """Records by result; `decoded`, `dead` and `dropped` add up to the records that were read.

    decoded: rows of decoded columns. dead: records that went to the dead-letter table. dropped: tombstones that
    `tombstones: drop` left out.
    nulled: of `decoded`, rows with a null in place of what could not be decoded or broke an expectation. warned: of
    `decoded`, rows that broke an expectation with `else: warn`. columns: of `nulled`, by column (`items[].price`; `*`
    for all columns of a key or value); left out of the JSON if empty.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    decoded: int = 0
    dead: int = 0
    dropped: int = 0
    nulled: int = 0
    warned: int = 0
    columns: dict[str, int] = field(default_factory=dict)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Callable[[Any], Any]) -> Any:
        from pydantic_core import core_schema  # only the ledger's codec gets here: workers do not load pydantic

        def to_json(counts: DecodingCounts, default: Callable[[DecodingCounts], dict[str, Any]]) -> dict[str, Any]:
            return {name: value for name, value in default(counts).items() if name != "columns" or value}

        return handler(source) | {"serialization": core_schema.wrap_serializer_function_ser_schema(to_json)}

    @property
    def total(self) -> int:
        return self.decoded + self.dead + self.dropped

    def __add__(self, other: DecodingCounts) -> DecodingCounts:
        sums = {f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "columns"}
        return DecodingCounts(**sums, columns=dict(sorted((Counter(self.columns) + Counter(other.columns)).items())))


def added(one: DecodingCounts | None, other: DecodingCounts | None) -> DecodingCounts | None:
    """The sum of what is known."""
    return other if one is None else one if other is None else one + other
