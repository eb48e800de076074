"""Partition values as Delta writes them: as text in the log, escaped in folder names, and batches cut by them.

Delta protocol, "Partition Value Serialization" and "File Types": an empty string is null, timestamps are ISO 8601 in
UTC, and the folder `name=value` is Hive's convention, which readers do not rely on. The escaped characters are those
that Spark escapes, so that one table's folders look the same for every writer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kseg.etl.rows.buffers import as_numpy, integers
from kseg.etl.tables.errors import UnlandableRow

HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(0x20)}
# Local file systems allow 255 bytes a name; a longer name is cut and made unique by a hash.
_MAX_FOLDER_BYTES = 200
_MOST_NUMBERS = 2**63

Values = tuple[str | None, ...]


def escape(text: str) -> str:
    """A partition column's name or value as (part of) a folder name."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def folder(names: Sequence[str], values: Values) -> str:
    """The relative folder of a partition, with a slash at its end; empty for a table without partitions."""
    return "".join(
        f"{_fitting(f'{escape(name)}={HIVE_NULL if value is None else escape(value)}')}/"
        for name, value in zip(names, values, strict=True)
    )


def _fitting(name: str) -> str:
    encoded = name.encode()
    if len(encoded) <= _MAX_FOLDER_BYTES:
        return name
    return f"{encoded[:_MAX_FOLDER_BYTES].decode(errors='ignore')}~{hashlib.sha256(encoded).hexdigest()[:16]}"


def value_text(value: Any, column: str) -> str | None:
    """A partition value as the log has it.

    Raises:
        UnlandableRow: the value's type has no such text.
    """
    if value is None or value == "":
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return value.isoformat(sep=" ", timespec="microseconds")
        return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    raise UnlandableRow(column, f"no partition value can be made of a {type(value).__name__}")


def split(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Values, pa.RecordBatch]]:
    """Cut a batch by its partition columns, which are left out of the parts; the rows of a part keep their order.

    Each part owns its memory: one row that waits for its row group must not hold a whole batch.

    Raises:
        UnlandableRow: a value has no text form (a time beyond the year 9999).
    """
    if not names:
        yield (), batch
        return
    encoded = [pc.dictionary_encode(batch.column(name), null_encoding="encode") for name in names]
    texts = [[_text(value, name) for value in e.dictionary] for e, name in zip(encoded, names, strict=True)]
    rest = batch.drop_columns(list(names))
    if all(len(t) == 1 for t in texts):
        yield tuple(t[0] for t in texts), rest
        return
    # One number for each combination of values; rows of one combination are found together by a stable sort.
    codes = [as_numpy(e.indices) for e in encoded]
    combined = np.zeros(batch.num_rows, dtype=np.int64)
    combinations = 1
    for code, t in zip(codes, texts, strict=True):
        if combinations * len(t) > _MOST_NUMBERS:  # numbered anew: no more combinations occur than there are rows
            combined = np.unique(combined, return_inverse=True)[1]
            combinations = batch.num_rows
        combined = combined * len(t) + code
        combinations *= len(t)
    order = np.argsort(combined, kind="stable")
    cuts = np.flatnonzero(np.diff(combined[order])) + 1
    for rows in np.split(order, cuts):
        values = tuple(t[code[rows[0]]] for code, t in zip(codes, texts, strict=True))
        yield values, rest.take(integers(rows, pa.int64()))


def _text(scalar: pa.Scalar, column: str) -> str | None:
    try:
        return value_text(scalar.as_py(), column)
    except (ValueError, OverflowError) as error:
        raise UnlandableRow(column, f"no partition value can be made of it: {error}") from error
