"""Which columns a sink row keeps: all that the transform gave, its address in Kafka, and the run that landed it.

Verify and replace need the address. It is in the row's own `topic, partition, offset` where the
transform kept them with these types, else in `_kseg_topic, _kseg_partition, _kseg_offset`, which rows handed to a
transform carry too; copies that are not needed are not landed. `_kseg_run` (the run's id) is always the last column.
Rows of a job with the section `interval:` carry `_kseg_late` through the transform too; it is landed where it is kept.

Types become Delta's (`etl.rows.types`). What Delta has no type for is bad configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

import pyarrow as pa

from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.rows.names import (
    DECODED_COLUMNS,
    FORBIDDEN_IN_NAMES,
    KSEG_ADDRESS,
    LATE_COLUMN,
    OWN_ADDRESS,
    RESERVED_PREFIX,
    ROUTE_COLUMN,
    RUN_COLUMN,
    AddressColumns,
)
from kseg.etl.rows.types import ADDRESS_TYPES, UnlandableType, delta_type, is_list
from kseg.segment_reader.payload.ddl import type_name

COMMENT: Final = b"comment"
"""Delta keeps a column's comment under this name in the field's metadata; so does Arrow here."""
DERIVED: Final = "made by kseg: "
"""What the comment of a partition column begins with that is made of another column."""
SPARK_TYPE: Final = b"kseg.spark_type"
"""In the metadata of a column of rows: Spark's name of its type, where Arrow has none for it (`variant`)."""
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SinkSchema:
    """The columns of a job's rows as they are landed.

    columns: all landed columns with Delta's types, in the rows' order, `_kseg_run` last.
    address: which of them hold the address; None where the job lands rows without one.
    check_address: the copy that the own address columns are compared with while rows are written; None: no copy.
    sources: a column, and what the rows call it, where that is not its name.
    declared: a column, and the key of the job file that declares its type.
    """

    columns: pa.Schema
    address: AddressColumns | None
    check_address: AddressColumns | None = None
    sources: tuple[tuple[str, str], ...] = ()
    declared: tuple[tuple[str, str], ...] = ()


def derived_as(field: pa.Field) -> str | None:
    """What a partition column is made by (`day(created_at)`), as its comment says; None where it says nothing."""
    comment = (field.metadata or {}).get(COMMENT, b"").decode(errors="replace")
    return comment.removeprefix(DERIVED) if comment.startswith(DERIVED) else None


def spark_type(field: pa.Field) -> str | None:
    """Spark's name of the type of a column that only Spark's own writer lands; None for all others."""
    name = (field.metadata or {}).get(SPARK_TYPE)
    return None if name is None else str(name.decode())


class OnlyColumns(NamedTuple):
    """Columns that one table gets of rows that have more. place: what names them in the job file. beside: columns that
    all of the job's tables have."""

    place: str
    names: tuple[str, ...]
    beside: tuple[str, ...] = ()

    def has(self, name: str, address: AddressColumns | None) -> bool:
        """Whether a column of the rows is landed. address: where the rows have theirs."""
        return name.startswith(RESERVED_PREFIX) or name in (*self.names, *self.beside, *(address or ()))


def sink_schema(
    rows: pa.Schema,
    *,
    addresses: bool = True,
    late: bool = False,
    decoded: bool = False,
    derived: Mapping[str, str] = _NONE,
    routed: bool = False,
    only: OnlyColumns | None = None,
) -> SinkSchema:
    """What is landed of rows with this schema (the output of the job's last transform step).

    addresses: False lands rows of any shape (`sink.addresses: false`); they have no address then.
    late: the rows had `_kseg_late` before the transform, and may have it still.
    decoded: keys or values were decoded: Kafka's own columns are those with the prefix, and all others are a payload's.
    derived: partition columns that are made of others, and by what; their comments say so.
    routed: the rows had `_kseg_route` before the transform, and must have it still; it is not landed.
    only: which of the rows' columns are landed, beside their address and those with our prefix; None: all.

    Raises:
        ConfigurationError: all of it at once: no address was kept, a name is doubled (Delta ignores case), reserved or
            not usable, a column has a type that Delta does not have.
    """
    faults: list[Diagnostic] = []
    own = not decoded and _has_address(rows, OWN_ADDRESS)
    copy = _has_address(rows, KSEG_ADDRESS)
    address = (OWN_ADDRESS if own else KSEG_ADDRESS if copy else None) if addresses else None
    if addresses and address is None:
        faults.append(_no_address(rows))
    kept = [field for field in rows if field.name not in KSEG_ADDRESS or address is KSEG_ADDRESS]
    if routed:
        faults += _route_faults(rows)
        kept = [field for field in kept if field.name != ROUTE_COLUMN]
    if only is not None:
        faults += _column_faults(kept, only)
        kept = [field for field in kept if only.has(field.name, address)]
    faults += _name_faults(kept, ours=DECODED_COLUMNS if decoded else {LATE_COLUMN} if late else set())
    fields = []
    for field in kept:
        try:
            metadata = {key: text for key, text in (field.metadata or {}).items() if key == SPARK_TYPE}
            if (made_by := derived.get(field.name)) is not None:
                metadata[COMMENT] = f"{DERIVED}{made_by}".encode()
            fields.append(pa.field(field.name, delta_type(field.type), metadata=metadata or None))
        except UnlandableType as error:
            faults.append(
                Diagnostic("transform", f"column {field.name}: {error}", "cast it to a type that Delta has, or drop it")
            )
    if faults:
        raise ConfigurationError(faults)
    columns = pa.schema([*fields, pa.field(RUN_COLUMN, pa.string())])
    return SinkSchema(columns, address, KSEG_ADDRESS if address is OWN_ADDRESS and copy else None)


def _column_faults(fields: list[pa.Field], only: OnlyColumns) -> Iterator[Diagnostic]:
    names = [field.name for field in fields]
    known = ", ".join(name for name in names if not name.startswith(RESERVED_PREFIX))
    for name in only.names:
        if name not in names:
            yield Diagnostic(only.place, f"names the column {name}, which the rows do not have", f"one of {known}")


def _route_faults(rows: pa.Schema) -> list[Diagnostic]:
    found = [field.type for field in rows if field.name == ROUTE_COLUMN]
    if found == [pa.string()]:
        return []
    there = f"it is {', '.join(map(str, found))}" if found else "it is not among their columns"
    return [
        Diagnostic(
            "transform",
            f"the rows have lost {ROUTE_COLUMN}, by which sink.route_by finds their tables: {there}",
            f"keep the column {ROUTE_COLUMN} as it is",
        )
    ]


def _has_address(rows: pa.Schema, names: AddressColumns) -> bool:
    for name, kind in zip(names, ADDRESS_TYPES, strict=True):
        if len(rows.get_all_field_indices(name)) != 1:
            return False
        try:
            if delta_type(rows.field(name).type) != kind:
                return False
        except UnlandableType:
            return False
    return True


def _no_address(rows: pa.Schema) -> Diagnostic:
    present = [f"{f.name} {type_name(f.type)}" for f in rows if f.name in OWN_ADDRESS or f.name in KSEG_ADDRESS]
    found = f"it kept {', '.join(present)}" if present else "it kept none of them"
    return Diagnostic(
        "transform",
        "the rows have lost their address: neither topic (string), partition (int), offset (bigint) nor "
        f"_kseg_topic, _kseg_partition, _kseg_offset came through; {found}",
        "keep one of the two sets of columns, or set sink.addresses: false (no verify by address, no replace then)",
    )


def _name_faults(fields: list[pa.Field], *, ours: Set[str]) -> list[Diagnostic]:
    faults = []
    seen: dict[str, str] = {}
    for field in fields:
        if (other := seen.get(field.name.lower())) is not None:
            faults.append(
                Diagnostic(
                    "transform", f"columns {other} and {field.name} are the same name for Delta", "rename one of them"
                )
            )
        seen[field.name.lower()] = field.name
        mine = field.name in KSEG_ADDRESS or field.name in ours
        if field.name == LATE_COLUMN and field.type != pa.bool_():
            mine = False
        if field.name.startswith(RESERVED_PREFIX) and not mine:
            faults.append(
                Diagnostic("transform", f"column {field.name}: names that begin with _kseg_ are reserved", "rename it")
            )
        faults += [
            Diagnostic(
                "transform",
                f"column {name!r}: Parquet names cannot have a space or any of , ; {{}} () newline tab =",
                "rename it",
            )
            for name in _names(field)
            if not name or FORBIDDEN_IN_NAMES.intersection(name)
        ]
        faults += [
            Diagnostic(
                "transform", f"fields {one} and {other} of {path} are the same name for Delta", "rename one of them"
            )
            for path, one, other in _same_names(field.type, field.name)
        ]
    return faults


def _same_names(kind: pa.DataType, path: str) -> Iterator[tuple[str, str, str]]:
    """Structs in a column with two fields of one name, but for case: their path and these two."""
    if is_list(kind):
        yield from _same_names(kind.value_type, f"{path}[]")
    elif pa.types.is_map(kind):
        yield from _same_names(kind.key_type, f"{path}{{}}")
        yield from _same_names(kind.item_type, f"{path}{{}}")
    elif pa.types.is_struct(kind):
        seen: dict[str, str] = {}
        for child in kind:
            if (other := seen.get(child.name.lower())) is not None:
                yield path, other, child.name
            seen[child.name.lower()] = child.name
            yield from _same_names(child.type, f"{path}.{child.name}")


def _names(field: pa.Field) -> list[str]:
    """The name of a field and of all fields in it that a user named."""
    kind = field.type
    if pa.types.is_struct(kind):
        return [field.name, *(name for child in kind for name in _names(child))]
    if is_list(kind):
        return [field.name, *_names(kind.value_field)[1:]]
    if pa.types.is_map(kind):
        return [field.name, *_names(kind.key_field)[1:], *_names(kind.item_field)[1:]]
    return [field.name]
