"""The parts of a codec of record batches, and code that all codecs share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from kseg.segment_reader.errors import Fault

NO_BUFFER: Final = memoryview(b"")


class CodecFault(Exception):
    """Internal: why a batch cannot be decompressed. Callers know the batch's address and raise the typed error."""

    def __init__(self, fault: Fault, detail: str = "") -> None:
        super().__init__(fault, detail)
        self.fault, self.detail = fault, detail


@dataclass(frozen=True, slots=True)
class Codec:
    """One compression codec.

    name: as in `compression.type`. number: as in the lowest three bits of a batch's attributes.
    compress(data, magic, level): the records of one batch, as the Java client compresses them; level None is the
        library's default.
    decompress(data, magic, limit, buffer): the inverse. Raises CodecFault TOO_LARGE above `limit` bytes, and CodecFault
        or any exception of its library for bytes that are not valid. `buffer`: writable bytes to decompress into where
        the result fits and the library can; the result is then a view of them.
    levels: the lowest and the highest value of `compression.<name>.level`; None: the codec has no levels.
    min_produce_version: the first version of Produce that may carry it.
    """

    name: str
    number: int
    compress: Callable[[bytes, int, int | None], bytes]
    decompress: Callable[[bytes | memoryview, int, int, memoryview], bytes | memoryview]
    levels: tuple[int, int] | None = None
    min_produce_version: int = 0


def uninitialized(size: int) -> memoryview:
    """A writable buffer of this many bytes that is not zeroed first."""
    return memoryview(np.empty(size, np.uint8).data)
