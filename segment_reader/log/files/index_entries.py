"""An index's entries, read when they are needed: a search in an index of megabytes reads some blocks of it.

The entries ascend, or the index is damaged and a search finds something useless, which does no harm: callers hold
the answer against the log.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Final

from kseg.segment_reader.log.errors import CorruptIndex, SegmentGone
from kseg.segment_reader.log.files.names import Kind
from kseg.segment_reader.log.files.segments import Segment
from kseg.segment_reader.log.files.storage import OpenFile, Storage

#: A small index is read at once, a large one in blocks. A multiple of either entry's size.
_WHOLE: Final = 96 * 1024
_BLOCK: Final = 24 * 1024
_BEYOND: Final = 1 << 63


class Entries:
    """Pairs of numbers in an open .index (relative offset, position) or .timeindex (timestamp, relative offset)."""

    def __init__(self, file: OpenFile, layout: Struct) -> None:
        self._file = file
        self._layout = layout
        self._block = _WHOLE if file.size <= _WHOLE else _BLOCK
        self._blocks: dict[int, bytes] = {}

    def __len__(self) -> int:
        """Entries that there is space for: those at the end may not be used yet."""
        return self._file.size // self._layout.size

    def __getitem__(self, number: int) -> tuple[int, int]:
        """An entry; zeros behind the used ones, and where the file was cut while it was read."""
        at = number * self._layout.size
        block = self._blocks.get(at // self._block)
        if block is None:
            block = bytes(self._file.read(at - at % self._block, self._block))
            self._blocks[at // self._block] = block
        at %= self._block
        if at + self._layout.size > len(block):
            return 0, 0
        first, second = self._layout.unpack_from(block, at)
        return first, second

    def last_below(self, key: int, column: int, *, inclusive: bool = False) -> int:
        """The number of the last used entry whose first (column 0) or second (1) number is below `key`; -1: none is."""

        def ordered(number: int) -> int:
            entry = self[number]
            return entry[column] if any(entry) else _BEYOND

        count = len(self)
        if count and ordered(count - 1) < key:  # all of it, as is usual in looking for the log's end
            return count - 1
        search = bisect_right if inclusive else bisect_left
        return search(range(count), key, key=ordered) - 1


_LAYOUTS: Final[dict[Kind, Struct]] = {"index": Struct(">ii"), "timeindex": Struct(">qi")}


class IndexFile:
    """A segment's .index or .timeindex, opened when it is first asked for and read once."""

    def __init__(self, storage: Storage, segment: Segment, kind: Kind = "index") -> None:
        self._storage = storage
        self._path = segment.others.get(kind)
        self._layout = _LAYOUTS[kind]
        self._file: OpenFile | None = None
        self._entries: Entries | None = None

    @property
    def entries(self) -> Entries | None:
        """None where there is no such file, or none that can be opened."""
        if self._entries is None and self._path is not None:
            try:
                self._file = self._storage.open(self._path)
            except (SegmentGone, CorruptIndex):
                self._path = None
                return None
            self._entries = Entries(self._file, self._layout)
        return self._entries

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
