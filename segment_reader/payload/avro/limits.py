"""What one payload may ask for at most, whatever it claims; both decoders keep to it."""

from __future__ import annotations

from typing import Final

#: Schemas, and values that are skipped, nested deeper than this are refused: parser and decoders are recursive.
MAX_DEPTH: Final = 64

#: Items of arrays that take no bytes (nulls, empty records), of one payload.
MAX_EMPTY_ITEMS: Final = 1 << 16
