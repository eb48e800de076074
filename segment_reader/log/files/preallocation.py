"""A log's last segment, opened up to its last write: zeros that were preallocated (`log.preallocate`) may follow.

Readers end at the zeros. But a write reaches a file page by page: a crash, or a read of a log in use, may come between
two of them. Then a batch's first pages are there, and zeros behind them. Its length says that it is whole, its checksum
that it is not, and a broker truncates it when it starts. Such a file is taken to end with the pages that were written,
so that the batch is one that is cut off, as it would be in a log that grows as it is written.
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

import numpy as np

from kseg.segment_reader.decode.batch import ATTRIBUTES_AT, RECORDS_AT
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.index_entries import IndexFile
from kseg.segment_reader.log.files.segments import Segment
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.headers import CHECKED_AT_ONCE, checksum_holds, checksum_in, only_zeros
from kseg.segment_reader.log.scan.lookup import THE_END, first_batch

#: The smallest that writes are made of; larger ones (huge pages, a device's blocks) begin and end with one of these.
PAGE_BYTES: Final = 4096
#: So many zeros at the end of a page may be a batch's own. Where more are missing, it was not a write that ended there.
_OWN_ZEROS: Final = 64


def open_segment(storage: Storage, segment: Segment) -> OpenFile:
    """A segment's .log. For a log's last one `size` leaves out zeros behind a batch that was written only in part.

    Raises SegmentGone, StoreRefused, StoreUnavailable.
    """
    file = storage.open(segment.path)
    if segment.is_last:
        try:
            file.size = written_size(storage, segment, file)
        except BaseException:
            file.close()
            raise
    return file


def written_size(storage: Storage, segment: Segment, file: OpenFile) -> int:
    """The end of the pages of a batch that was written only in part; the file's size where there is no such batch."""
    if not file.size or not only_zeros(file, _page_of(file.size - 1)):
        return file.size
    position, end = _last_batch(storage, segment, file)
    page = _page_of(end - 1)
    if page <= position or end > file.size or end_of_content(file, page, end) > page:
        return file.size
    if checksum_holds(file, position, end - position) or not only_zeros(file, end):
        return file.size
    content = end_of_content(file, position, end)
    written = _page_of(content - 1) + PAGE_BYTES
    if written - content > _OWN_ZEROS or size_by_checksum(file, position, written):
        return file.size
    return written


def end_of_content(file: OpenFile, position: int, end: int) -> int:
    """Behind the last byte of [position, end) that is not zero; `position` where there is none."""
    while end > position:
        start = max(position, end - PAGE_BYTES * 16)
        filled = np.flatnonzero(np.frombuffer(file.read(start, end - start), np.uint8))
        if len(filled):
            return start + int(filled[-1]) + 1
        end = start
    return position


def _page_of(position: int) -> int:
    return position - position % PAGE_BYTES


def _last_batch(storage: Storage, segment: Segment, file: OpenFile) -> tuple[int, int]:
    """Begin and end of the last batch by its header; for a header that is cut off, the header's end."""
    with closing(IndexFile(storage, segment)) as index:
        try:
            behind = first_batch(segment, file, index, THE_END)
            if not behind.position:
                return 0, 0
            return first_batch(segment, file, index, behind.base_offset - 1).position, behind.position
        except LogDamaged as error:
            return error.position or 0, (error.position or 0) + RECORDS_AT


def size_by_checksum(file: OpenFile, position: int, end: int) -> int:
    """The size of the batch at a position by its checksum, if it ends with what is not zero before `end`, with some of
    the zeros behind that, or at `end`; 0: at none of these. If it has a size, only its length was changed, which no
    checksum covers.
    """
    content = end_of_content(file, position, end)
    head = bytes(file.read(position, ATTRIBUTES_AT))
    if content - position <= ATTRIBUTES_AT:
        return 0
    expected, start, add = checksum_in(head)
    at, found = position + start, 0
    while at < content:
        data = file.read(at, min(CHECKED_AT_ONCE, content - at))
        if not len(data):
            return 0
        found = add(data, found)
        at += len(data)
    until = min(end, content + PAGE_BYTES)
    while found != expected and at < until:
        found = add(b"\0", found)
        at += 1
    if found == expected:
        return at - position
    while at < end:
        zeros = bytes(min(CHECKED_AT_ONCE, end - at))
        found = add(zeros, found)
        at += len(zeros)
    return end - position if found == expected else 0
