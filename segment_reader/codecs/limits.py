"""What a batch may decompress to. In a module of its own: configurations name it, and load no codec."""

from __future__ import annotations

from typing import Final

#: Where no other limit is given, in bytes.
DEFAULT_LIMIT: Final = 1 << 30
MAX_BATCH_BYTES: Final = (1 << 31) - 1  # lengths are 32-bit in every format, and so are Arrow's binary offsets
