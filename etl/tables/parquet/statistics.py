"""Delta's statistics of a data file, taken from the Parquet file's own footer: no second pass over the rows.

    {"numRecords": n, "minValues": {…}, "maxValues": {…}, "nullCount": {…}}      Delta protocol, "Per-file Statistics"

The rules that the protocol leaves open are those of Delta on Spark, so that both writers' files are skipped alike:
the first 32 leaf columns of the table's schema (a struct counts its leaves, a list or map counts once; table properties
may say otherwise), null counts for every type, bounds for numbers, decimals, dates, timestamps and strings. Strings are
cut to 32 characters, an upper bound then ends with a character that sorts above all that was cut off. Timestamps are
written in milliseconds: lower bounds rounded down, upper bounds up.

A bound is left out where it would not hold or cannot be said: an upper bound of floats with a NaN (which Spark sorts
above all numbers and Parquet leaves out of its bounds), infinities, strings too long for the footer, years of more than
four digits. Readers then read the file.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.tables.parquet.layout import has_bounds

NUM_INDEXED = "delta.dataSkippingNumIndexedCols"
STATS_COLUMNS = "delta.dataSkippingStatsColumns"
DEFAULT_NUM_INDEXED = 32
STRING_PREFIX = 32

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1)
_ASCII_MAX = "\x7f"
_UNICODE_MAX = "\U0010ffff"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StatsSpec:
    """Which leaf columns of a table have statistics; `paths` are in the table's order, partition columns left out."""

    paths: tuple[Path, ...]

    @classmethod
    def of(
        cls, table_schema: pa.Schema, partition_by: Sequence[str] = (), properties: Mapping[str, str] | None = None
    ) -> StatsSpec:
        """By the table's schema and its properties."""
        properties = properties or {}
        leaves = list(leaf_paths([f for f in table_schema if f.name not in partition_by]))
        if named := properties.get(STATS_COLUMNS):
            wanted = [tuple(part.lower() for part in path) for path in _column_list(named)]
            return cls(tuple(p for p in leaves if any(tuple(x.lower() for x in p)[: len(w)] == w for w in wanted)))
        count = int(properties.get(NUM_INDEXED, DEFAULT_NUM_INDEXED))
        return cls(tuple(leaves if count < 0 else leaves[:count]))


def properties_for(table_schema: pa.Schema, partition_by: Sequence[str], names: Collection[str]) -> dict[str, str]:
    """Properties that a new table needs so that these columns have statistics: none where they come early enough."""
    leaves = list(leaf_paths([f for f in table_schema if f.name not in partition_by]))
    last = max((number for number, path in enumerate(leaves, 1) if path[0] in names), default=0)
    return {NUM_INDEXED: str(last)} if last > DEFAULT_NUM_INDEXED else {}


def leaf_paths(fields: Sequence[pa.Field], parent: Path = ()) -> Iterator[Path]:
    """Leaves as Delta counts them: structs are entered, lists and maps are not."""
    for field in fields:
        if pa.types.is_struct(field.type):
            yield from leaf_paths(list(field.type), (*parent, field.name))
        else:
            yield (*parent, field.name)


def _column_list(text: str) -> list[list[str]]:
    """`a, b.c, `d.e`` as paths."""
    token = re.compile(r"`((?:[^`]|``)*)`|([^.,`\s]+)|([.,])")
    paths: list[list[str]] = [[]]
    for quoted, plain, sign in token.findall(text):
        if sign == ",":
            paths.append([])
        elif not sign:
            paths[-1].append(quoted.replace("``", "`") if quoted else plain)
    return [path for path in paths if path]


# --- collecting ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Leaf:
    path: Path
    kind: pa.DataType
    column: int  # number of the leaf in the Parquet file; of a list or map, of its first leaf
    nulls: int = 0
    nan: bool = False


class StatsCollector:
    """The statistics of one file: null counts are added up while rows pass, bounds come from the footer at the end."""

    def __init__(self, spec: StatsSpec, file_schema: pa.Schema) -> None:
        wanted = set(spec.paths)
        self._leaves = [leaf for leaf in _parquet_leaves(file_schema) if leaf.path in wanted]
        present = {leaf.path for leaf in self._leaves}
        self._absent = [path for path in spec.paths if path not in present]
        self._order = {path: number for number, path in enumerate(spec.paths)}

    def add(self, rows: pa.Table) -> None:
        """Count nulls and look for NaN in rows that go to the file."""
        for leaf in self._leaves:
            column = _descend(rows.column(leaf.path[0]), leaf.path[1:])
            leaf.nulls += column.null_count
            if pa.types.is_floating(leaf.kind) and not leaf.nan:
                leaf.nan = pc.any(pc.is_nan(column)).as_py() or False

    def result(self, footer: Any) -> str:
        """Delta's JSON, from the footer (`pyarrow.parquet.FileMetaData`) of the finished file."""
        lows: dict[str, Any] = {}
        highs: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        counts = {leaf.path: leaf.nulls for leaf in self._leaves} | dict.fromkeys(self._absent, footer.num_rows)
        for path in sorted(counts, key=self._order.__getitem__):
            _put(nulls, path, counts[path])
        for leaf in self._leaves:
            bounds = _footer_bounds(footer, leaf) if _has_bounds(leaf.kind) else None
            if bounds is None:
                continue
            low, high = lower_bound(bounds[0], leaf.kind), upper_bound(bounds[1], leaf.kind)
            if low is not None:
                _put(lows, leaf.path, low)
            if high is not None and not leaf.nan:
                _put(highs, leaf.path, high)
        return _json({"numRecords": footer.num_rows, "minValues": lows, "maxValues": highs, "nullCount": nulls})


def _parquet_leaves(schema: pa.Schema) -> list[_Leaf]:
    found: list[_Leaf] = []

    def visit(fields: Sequence[pa.Field], parent: Path, column: int) -> int:
        for field in fields:
            path = (*parent, field.name)
            if pa.types.is_struct(field.type):
                column = visit(list(field.type), path, column)
            else:
                found.append(_Leaf(path, field.type, column))
                column += _width(field.type)
        return column

    visit(list(schema), (), 0)
    return found


def _width(kind: pa.DataType) -> int:
    """Parquet leaf columns that a type takes."""
    if pa.types.is_struct(kind):
        return sum(_width(child.type) for child in kind)
    if pa.types.is_map(kind):
        return _width(kind.key_type) + _width(kind.item_type)
    if pa.types.is_list(kind):
        return _width(kind.value_type)
    return 1


def _descend(column: pa.ChunkedArray, path: Path) -> pa.ChunkedArray:
    """A leaf inside structs, null where one of them is."""
    for name in path:
        at = column.type.get_field_index(name)
        column = column.flatten()[at]
    return column


def _has_bounds(kind: pa.DataType) -> bool:
    return has_bounds(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _footer_bounds(footer: Any, leaf: _Leaf) -> tuple[Any, Any] | None:
    """Smallest and largest physical value over all row groups; None where a row group has none."""
    found: list[Any] = []
    for number in range(footer.num_row_groups):
        chunk = footer.row_group(number).column(leaf.column)
        stats = chunk.statistics
        if stats is not None and stats.has_min_max:
            found += [stats.min_raw, stats.max_raw]
        elif stats is None or not stats.has_null_count or stats.null_count != chunk.num_values:
            return None
    if pa.types.is_decimal(leaf.kind):
        # Two's complement: negative ones would be the largest as bytes.
        found = [int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw for raw in found]
    return (min(found), max(found)) if found else None


# --- bounds ----------------------------------------------------------------------------------------------------------


def lower_bound(raw: Any, kind: pa.DataType) -> Any:
    """A Parquet minimum as Delta writes it; None where Delta has no form for it."""
    types = pa.types
    if types.is_timestamp(kind):
        return _millis(raw // 1000, kind)
    if isinstance(raw, bytes):
        text = _decoded(raw)
        return None if text is None else text[:STRING_PREFIX]
    return _plain(raw, kind)


def upper_bound(raw: Any, kind: pa.DataType) -> Any:
    """A Parquet maximum as Delta writes it; None where Delta has no form for it."""
    types = pa.types
    if types.is_timestamp(kind):
        return _millis(-(-raw // 1000), kind)
    if isinstance(raw, bytes):
        text = _decoded(raw)
        return None if text is None else truncate_max(text)
    return _plain(raw, kind)


def truncate_max(text: str) -> str | None:
    """The shortest form of Delta's that no string with this prefix exceeds: 32 UTF-16 units and a tie-breaker.

    The tie-breaker is DEL where the first character cut off is ASCII, else U+10FFFF; where that very character comes
    next, more of the string is kept. None where that would need more than twice the length.
    """
    kept = units = 0
    for character in text:
        width = 2 if character > "\uffff" else 1
        if units >= STRING_PREFIX:
            break
        kept, units = kept + 1, units + width
    while units <= 2 * STRING_PREFIX:
        if kept >= len(text):
            return text
        if text[kept] != _UNICODE_MAX:
            return text[:kept] + (_ASCII_MAX if text[kept] < _ASCII_MAX else _UNICODE_MAX)
        kept, units = kept + 1, units + 2
    return None


def _decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _millis(millis: int, kind: pa.DataType) -> str | None:
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None
    text = moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
    return f"{text}Z" if kind.tz is not None else text


def _plain(raw: Any, kind: pa.DataType) -> Any:
    types = pa.types
    if types.is_date32(kind):
        try:
            return (_EPOCH_DAY + timedelta(days=raw)).isoformat()
        except OverflowError:
            return None
    if types.is_decimal(kind):
        return Decimal((int(raw < 0), tuple(int(digit) for digit in str(abs(raw))), -kind.scale))
    if types.is_floating(kind):
        return raw if math.isfinite(raw) else None
    return raw


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _json(value: Any) -> str:
    """JSON with decimals as exact numbers, which `json.dumps` cannot write."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


def null_counts(files: Iterable[str]) -> dict[str, int]:
    """Nulls by column, added up over the statistics of files as Delta's JSON; a struct's field is `struct.field`."""
    sums: dict[str, int] = {}

    def add(counts: Mapping[str, Any], above: str) -> None:
        for name, found in counts.items():
            if isinstance(found, Mapping):
                add(found, f"{above}{name}.")
            else:
                sums[above + name] = sums.get(above + name, 0) + int(found)

    for stats in files:
        add(json.loads(stats).get("nullCount") or {}, "")
    return sums
