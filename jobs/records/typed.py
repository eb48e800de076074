"""A decoded key or value as JSON: what `kseg peek` shows in place of bytes.

binary              base64                      timestamp    ISO 8601, with Z where it is an instant
decimal             text, all its digits        date         ISO 8601; beyond year 9999 the column's own number
NaN, infinities     text                        map          an object
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kseg.segment_reader.payload.decoder import PayloadError


@dataclass(frozen=True, slots=True)
class Typed:
    """A key or value that was decoded: its columns, or one value; or why it could not be."""

    value: Any = None
    error: PayloadError | None = None

    def error_text(self) -> str:
        assert self.error is not None
        return f"{self.error.status.name} {self.error}"


Decoded = Mapping[str, Typed]
"""By `key` and `value`: those that were decoded."""


def plain(found: pa.Scalar) -> Any:
    """An Arrow value as JSON has it."""
    if not found.is_valid:
        return None
    kind, types = found.type, pa.types
    if types.is_struct(kind):
        return {field.name: plain(found[number]) for number, field in enumerate(kind)}
    if types.is_map(kind):
        return {_key(entry[0]): plain(entry[1]) for entry in found.values}
    if types.is_list(kind):
        return [plain(element) for element in found.values]
    if types.is_binary(kind):
        return base64.b64encode(found.as_py()).decode()
    if types.is_timestamp(kind) or types.is_date(kind):
        return _time(found)
    if types.is_floating(kind):
        number = found.as_py()
        return number if math.isfinite(number) else str(number)
    return str(found.as_py()) if types.is_decimal(kind) else found.as_py()


def _key(found: pa.Scalar) -> str:
    value = plain(found)
    return value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _time(found: pa.Scalar) -> Any:
    try:
        return found.as_py().isoformat().replace("+00:00", "Z")
    except (ValueError, OverflowError):
        return found.value
