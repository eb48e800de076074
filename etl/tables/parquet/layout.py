"""The columns by which a table is partitioned or clustered: the rows have them, each is named once, and their types are
of those that Delta can lay rows out by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.segment_reader.payload.ddl import type_name


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to lay out rows. word, verb: for messages. takes: whether a column of this type can be used."""

    word: str
    verb: str
    takes: Callable[[pa.DataType], bool]

    def faults(self, columns: pa.Schema, named: Sequence[str]) -> Iterator[tuple[int, str, str]]:
        """Which of the named columns cannot be used with rows of these columns: number among the named, message and
        remedy."""
        spelled = {field.name.lower(): field for field in columns}
        seen: dict[str, str] = {}
        for number, name in enumerate(named):
            field, other = spelled.get(name.lower()), seen.setdefault(name.lower(), name)
            if field is None:
                yield number, f"the rows do not have this {self.word} column", "add it in the transform"
            elif other != name:
                yield number, f"{other} and {name} are the same name for Delta", f"{self.verb} by it once"
            elif not self.takes(field.type):
                message = f"{type_name(field.type)} is not a type to {self.verb} by"
                yield number, message, f"{self.verb} by another column"


def can_partition_by(kind: pa.DataType) -> bool:
    """Types whose values have one spelling as text (Delta protocol, "Partition Value Serialization")."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_string(kind)
        or types.is_boolean(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
        or types.is_decimal(kind)
    )


def has_bounds(kind: pa.DataType) -> bool:
    """Types of whose values Delta keeps the least and the greatest of a file."""
    types = pa.types
    return bool(
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_string(kind)
        or types.is_date32(kind)
        or types.is_timestamp(kind)
    )


def _is_flat(kind: pa.DataType) -> bool:
    return not pa.types.is_nested(kind)


PARTITIONS: Final = Layout("partition", "partition", can_partition_by)
"""The layout of a table that delta-rs writes."""
PARTITIONS_BY_SPARK: Final = Layout("partition", "partition", _is_flat)
CLUSTERING: Final = Layout("clustering", "cluster", has_bounds)


def check_layout(columns: pa.Schema, partition_by: Sequence[str], cluster_by: Sequence[str]) -> None:
    """Whether rows of these columns can be laid out as the job file says in a table that Spark makes.

    Raises ConfigurationError: with a fault for every column that cannot be used.
    """
    asked = (("partition_by", PARTITIONS_BY_SPARK, partition_by), ("cluster_by", CLUSTERING, cluster_by))
    faults = [
        Diagnostic(f"sink.{key}[{number}]", f"{named[number]}: {message}", remedy)
        for key, layout, named in asked
        for number, message, remedy in layout.faults(columns, named)
    ]
    if faults:
        raise ConfigurationError(faults)
