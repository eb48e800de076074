"""How the columns of a Parquet file are encoded, by its schema and by a sample of its first row group.

    binary (keys, values), booleans       plain
    offsets, timestamps                   as deltas, a few bits a row: they rise steadily within a batch
    others, where values repeat           through a dictionary
    others, where nearly all differ       plain: a dictionary would outgrow its page (1 MiB)

A dictionary that is given up has cost the hash of each value: 50 ns a double or bigint with it, 20 without.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RISING: Final = frozenset({"offset", "_kseg_offset", "batchBaseOffset", "sequence"})
"""Names of Kafka's columns. A user's columns of the same names may have any type."""
SAMPLE: Final = 16_384
"""Rows that are read of the row group, in RUNS."""
RUNS: Final = 16
MOSTLY_DISTINCT: Final = 0.9
"""Share of a sample's values. That many differ if there are more than 80,000 values, in any order."""
SMALL: Final = 1_000
"""Rows of which a dictionary costs nothing worth a sample."""


def encodings(rows: pa.Table) -> dict[str, Any]:
    """Arguments of `pyarrow.parquet.ParquetWriter`. rows: the file's first row group, or none."""
    dictionary: list[str] = []
    bounded: list[str] = []
    deltas: dict[str, str] = {}
    columns = zip(rows.column_names, map(_array, _sample(rows).columns), strict=True)
    leaves = {name: list(_leaves(name, column)) for name, column in columns}
    used = Counter(path for found in leaves.values() for path, _ in found)
    for name, found in leaves.items():
        for path, values in found:
            rises = name in RISING and pa.types.is_integer(values.type)
            # A column `a.b` has the path of the field `b` of a column `a`: what is said of one holds for the other.
            if path == name and used[path] == 1 and (rises or pa.types.is_timestamp(values.type)):
                deltas[path] = "DELTA_BINARY_PACKED"
                bounded.append(path)
                continue
            if pa.types.is_binary(values.type) or pa.types.is_boolean(values.type):
                continue
            bounded.append(path)
            if _repeats(values):
                dictionary.append(path)
    return {
        "use_dictionary": dictionary or False,
        "write_statistics": bounded or False,
        "column_encoding": deltas or None,
    }


def _sample(rows: pa.Table) -> pa.Table:
    """Runs of rows, evenly spread; a chunk a column."""
    if rows.num_rows > SAMPLE:
        starts = np.linspace(0, rows.num_rows - SAMPLE // RUNS, RUNS).astype(np.int64).tolist()
        rows = pa.concat_tables([rows.slice(start, SAMPLE // RUNS) for start in starts])
    return rows.combine_chunks()


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _repeats(values: pa.Array) -> bool:
    """Whether a dictionary may pay."""
    if len(values) < SMALL or pa.types.is_dictionary(values.type):
        return True
    there = len(values) - values.null_count
    return bool(pc.count_distinct(values).as_py() <= MOSTLY_DISTINCT * there)


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Parquet's dotted paths of all leaves below a column, with their values."""
    kind = values.type
    if pa.types.is_struct(kind):
        for number, child in enumerate(kind):
            yield from _leaves(f"{path}.{child.name}", values.field(number))
    elif pa.types.is_list(kind):
        yield from _leaves(f"{path}.list.element", values.flatten())
    elif pa.types.is_map(kind):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    else:
        yield path, values
