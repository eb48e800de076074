"""What can be wrong with a log directory's files, as typed errors that cross process borders.

    LogFileError
    ├── CorruptIndex         an .index, .timeindex or .txnindex that contradicts itself
    ├── CorruptSnapshot      a .snapshot whose checksum or layout is wrong
    ├── CorruptCheckpoint    a text file that is not in its format
    ├── SegmentGone          a file that was there is there no more: rolled, deleted or replaced while we read
    ├── StoreError           where the files are kept says no
    │   ├── StoreUnavailable     it does not answer, or not now: asking again may help
    │   └── StoreRefused         credentials are missing or wrong, or may not read this
    ├── LayoutError          what a remote store holds is not in the layout that was named
    ├── LogDamaged           the bytes of a .log are no record batches at some position
    ├── LogEndsEarly         the files end before the range that is to be read
    └── UndecidedTransaction a transaction that has no marker in the files: the range ends above the last stable offset

What only hints at the log (indexes, snapshots) is never needed for a right answer: code that catches such an error
there may go on without the file.
"""

from __future__ import annotations

from typing import Any, ClassVar


class LogFileError(Exception):
    """Something about one file. Attributes: `file`, `position` (byte, None for the file as a whole), `reason`."""

    retriable: ClassVar[bool] = False

    def __init__(self, file: str, position: int | None, reason: str) -> None:
        at = "" if position is None else f", byte {position}"
        super().__init__(f"{file}{at}: {reason}")
        self.file = file
        self.position = position
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.position, self.reason)


class CorruptIndex(LogFileError):
    """An index that contradicts itself."""


class CorruptSnapshot(LogFileError):
    """A producer snapshot whose checksum or layout is wrong."""


class CorruptCheckpoint(LogFileError):
    """A checkpoint, or another small text file, that is not in its format."""


class SegmentGone(LogFileError):
    """A file that was listed is there no more, or shorter than it was. Listing the folder again may help."""

    retriable: ClassVar[bool] = True


class StoreError(LogFileError):
    """The store denies access: nothing is known of the files themselves."""


class StoreUnavailable(StoreError):
    """An object store does not respond, or asks to retry later."""

    retriable: ClassVar[bool] = True


class StoreRefused(StoreError):
    """A store wants other credentials, or these may not read this. `remedy`: what to do."""

    def __init__(self, file: str, position: int | None, reason: str, remedy: str) -> None:
        super().__init__(file, position, reason)
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.position, self.reason, self.remedy)


class LayoutError(LogFileError):
    """An object of a remote store that is not what its layout promises: a manifest, a chunk, a name."""


class LogDamaged(LogFileError):
    """Bytes of a .log that are no record batches.

    base_offset: that of the batch where its header is plausible, else the first one that it may have.
    length: how many bytes, and first, last: the offsets `[first, last)` that are missing for them. Those that were not
    read are None.
    """

    def __init__(
        self,
        file: str,
        position: int | None,
        reason: str,
        base_offset: int | None = None,
        *,
        length: int | None = None,
        first: int | None = None,
        last: int | None = None,
    ) -> None:
        super().__init__(file, position, reason if base_offset is None else f"batch at offset {base_offset}: {reason}")
        self.reason = reason
        self.base_offset = base_offset
        self.length, self.first, self.last = length, first, last

    def __reduce__(self) -> tuple[Any, ...]:
        at = (self.file, self.position, self.reason, self.base_offset)
        return _damaged, (*at, self.length, self.first, self.last)


def _damaged(
    file: str,
    position: int | None,
    reason: str,
    base_offset: int | None,
    length: int | None,
    first: int | None,
    last: int | None,
) -> LogDamaged:
    return LogDamaged(file, position, reason, base_offset, length=length, first=first, last=last)


class LogEndsEarly(LogFileError):
    """The files hold fewer offsets than were to be read. `offset`: the first one that is missing."""

    def __init__(self, file: str, position: int | None, offset: int) -> None:
        super().__init__(file, position, f"the log ends before offset {offset}")
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.position, self.offset)


class UndecidedTransaction(LogFileError):
    """A transaction whose marker is not in the files, so that it is unknown whether it counts."""

    def __init__(self, file: str, producer_id: int, first_offset: int) -> None:
        super().__init__(
            file, None, f"the transaction of producer {producer_id} from offset {first_offset} on has no marker"
        )
        self.producer_id = producer_id
        self.first_offset = first_offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.producer_id, self.first_offset)
