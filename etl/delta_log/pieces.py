"""A Parquet file of a store of which only some ranges are read: with one request the whole of a small file, else its
footer, and then the chunks of the columns that are wanted, near ones in one request.

    | chunk | chunk | … | footer | its length | PAR1 |

pyarrow reads through `Pieces` in the calling thread: its own prefetching would call Python from Arrow's threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

Read = Callable[[int, int], bytes]
"""The bytes of a range: where it begins, and its length."""

WHOLE: Final = 1 << 20
"""Files up to this size are read with one request: a round trip takes as long as a megabyte."""

TAIL: Final = 64 << 10
"""What is read of a larger file first: pyarrow asks for so much at its end."""

GAP: Final = 1 << 20
"""Ranges with less than this between them are read with one request."""

Range = tuple[int, int]
"""The positions of a begin and an end."""


class Pieces:
    """A file object for pyarrow; what is asked for and was not fetched is read when it is asked for."""

    closed = False

    def __init__(self, size: int, read: Read) -> None:
        """size: of the file, in bytes. What `read` raises leaves as it is."""
        self.size = size
        self._read = read
        self._held: list[tuple[int, bytes]] = []
        self._at = 0
        first = 0 if size <= WHOLE else size - TAIL
        self._take(first, size)

    def fetch(self, ranges: Iterable[Range]) -> None:
        """Read ranges that will be asked for, the fewest requests at once."""
        for first, last in merged(ranges):
            self._take(first, last)

    def drop(self) -> None:
        """Forget what was fetched, except for the footer."""
        del self._held[1:]

    def read(self, length: int = -1) -> bytes:
        first = self._at
        last = self.size if length < 0 else min(self.size, first + length)
        self._at = max(first, last)
        if first >= last:
            return b""
        return self._of_held(first, last) or self._take(first, last)

    def seek(self, position: int, whence: int = 0) -> int:
        self._at = position + (0, self._at, self.size)[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def _of_held(self, first: int, last: int) -> bytes:
        for start, piece in self._held:
            if start <= first and last <= start + len(piece):
                return piece[first - start : last - start]
        return b""

    def _take(self, first: int, last: int) -> bytes:
        if held := self._of_held(first, last):
            return held
        piece = self._read(first, last - first)
        if len(piece) != last - first:
            raise ValueError(f"the file ends {last - first - len(piece)} bytes before its listed size")
        self._held.append((first, piece))
        return piece


def merged(ranges: Iterable[Range], gap: int = GAP) -> list[Range]:
    """Ranges that cover the given ones, with more than `gap` bytes between two of them."""
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first - found[-1][1] <= gap:
            found[-1] = found[-1][0], max(found[-1][1], last)
        else:
            found.append((first, last))
    return found
