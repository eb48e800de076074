"""`sink.partition_by`: partition columns by name, and columns derived from other columns (`{day: created_at}`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag

from kseg.etl.config.marks import DecidesRowsIfGiven
from kseg.etl.config.values import Column, InSchema, Loose, Section, exactly_one, fault, unique

PartitionFunction = Literal["day", "hour", "month", "bucket"]
FUNCTIONS: tuple[PartitionFunction, ...] = ("day", "hour", "month", "bucket")
MAX_BUCKETS = 10_000


def _bucket(value: Any) -> Any:
    if (
        not isinstance(value, list | tuple)
        or len(value) != 2
        or not isinstance(value[0], int)
        or isinstance(value[0], bool)
        or not 2 <= value[0] <= MAX_BUCKETS
        or not isinstance(value[1], str)
    ):
        raise fault("is no number of buckets and a column", f"[16, id]: 2 to {MAX_BUCKETS:,} buckets, and a column")
    return value


Bucket = Annotated[
    tuple[int, Column],
    BeforeValidator(_bucket),
    Loose,
    InSchema(
        minItems=2,
        maxItems=2,
        prefixItems=[{"type": "integer", "minimum": 2, "maximum": MAX_BUCKETS}, {"type": "string"}],
    ),
]


class DerivedPartition(Section):
    """A partition column that is derived from another column: exactly one of day, hour, month and bucket is set.

    as: its name. By default the other column's name followed by the function's (`created_at_day`).
    """

    model_config = ConfigDict(populate_by_name=True, **exactly_one(*FUNCTIONS))

    day: DecidesRowsIfGiven[Column | None] = None
    hour: DecidesRowsIfGiven[Column | None] = None
    month: DecidesRowsIfGiven[Column | None] = None
    bucket: DecidesRowsIfGiven[Bucket | None] = None
    as_: DecidesRowsIfGiven[Column | None] = Field(default=None, alias="as")

    @property
    def function(self) -> PartitionFunction:
        return next(name for name in FUNCTIONS if getattr(self, name) is not None)

    @property
    def column(self) -> str:
        """The column that it is derived from."""
        value = getattr(self, self.function)
        return str(value[1] if self.bucket is not None else value)

    @property
    def buckets(self) -> int:
        """The number of buckets; 0 for times."""
        return self.bucket[0] if self.bucket is not None else 0

    @property
    def name(self) -> str:
        return self.as_ or f"{self.column}_{self.function}"


def _form(value: Any) -> str:
    return "<derived>" if isinstance(value, Mapping | DerivedPartition) else "<column>"


def _shape(value: Any) -> Any:
    if isinstance(value, str | DerivedPartition):
        return value
    given = [name for name in FUNCTIONS if value.get(name) is not None] if isinstance(value, Mapping) else []
    if len(given) != 1:
        problem = "is no partition" if not given else f"has more than one function: {' and '.join(given)}"
        raise fault(problem, "a column's name, or one of {day: …}, {hour: …}, {month: …} and {bucket: [16, …]}")
    return value


AnyPartition = Annotated[
    Annotated[Column, Tag("<column>")] | Annotated[DerivedPartition, Tag("<derived>")],
    Discriminator(_form),
    BeforeValidator(_shape),
]


def names_of(partitions: tuple[str | DerivedPartition, ...]) -> tuple[str, ...]:
    """The names of the partition columns."""
    return tuple(one if isinstance(one, str) else one.name for one in partitions)


def _unique_names(partitions: tuple[str | DerivedPartition, ...]) -> tuple[str | DerivedPartition, ...]:
    unique(names_of(partitions))
    return partitions


Partitioning = Annotated[tuple[AnyPartition, ...], Loose, AfterValidator(_unique_names), InSchema(uniqueItems=True)]
