"""Errors of log directories and their files. They can be pickled.

    LogFileError
    ├── CorruptIndex         an .index, .timeindex or .txnindex with inconsistent entries
    ├── CorruptSnapshot      a .snapshot whose checksum or layout is wrong
    ├── CorruptCheckpoint    a text file that is not in its format
    ├── SegmentGone          a file no longer exists: rolled, deleted or replaced while it was read
    ├── StoreError           the store of the files denies access
    │   ├── StoreUnavailable     the store does not respond at the moment: a retry may help
    │   └── StoreRefused         credentials are missing or wrong, or lack the permission
    ├── LayoutError          the objects of a remote store are not in the configured layout
    ├── LogDamaged           the bytes of a .log are not record batches at some position
    ├── LogEndsEarly         the files end before the end of the requested range
    └── UndecidedTransaction a transaction that has no marker in the files: the range ends above the last stable offset

Indexes and snapshots are only hints, and results never depend on them: if reading one fails, code may continue without
the file.
"""

from __future__ import annotations

from typing import Any, ClassVar


class LogFileError(Exception):
    """An error of one file. Attributes: `file`, `position` (byte; None: the whole file), `reason`."""

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
    """An index with inconsistent entries."""


class CorruptSnapshot(LogFileError):
    """A producer snapshot whose checksum or layout is wrong."""


class CorruptCheckpoint(LogFileError):
    """A checkpoint, or another small text file, that is not in its format."""


class SegmentGone(LogFileError):
    """A listed file no longer exists, or is shorter than before. Listing the folder again may help."""

    retriable: ClassVar[bool] = True


class StoreError(LogFileError):
    """The store denies access, so the state of the files is unknown."""


class StoreUnavailable(StoreError):
    """An object store does not respond, or asks to retry later."""

    retriable: ClassVar[bool] = True


class StoreRefused(StoreError):
    """A store rejects the credentials, or they lack the permission. `remedy`: how to resolve it."""

    def __init__(self, file: str, position: int | None, reason: str, remedy: str) -> None:
        super().__init__(file, position, reason)
        self.remedy = remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.position, self.reason, self.remedy)


class LayoutError(LogFileError):
    """An object of a remote store that does not have its layout's format: a manifest, a chunk, a name."""


class LogDamaged(LogFileError):
    """Bytes of a .log that are not record batches.

    base_offset: the batch's base offset if its header is plausible, otherwise the lowest offset that it may have.
    length: the number of bytes. first, last: the offsets `[first, last)` that are missing. Unknown values are None.
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
    """The files have fewer offsets than requested. `offset`: the first missing offset."""

    def __init__(self, file: str, position: int | None, offset: int) -> None:
        super().__init__(file, position, f"the log ends before offset {offset}")
        self.offset = offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.position, self.offset)


class UndecidedTransaction(LogFileError):
    """A transaction whose marker is not in the files, so it is unknown whether it was committed."""

    def __init__(self, file: str, producer_id: int, first_offset: int) -> None:
        super().__init__(
            file, None, f"the transaction of producer {producer_id} from offset {first_offset} on has no marker"
        )
        self.producer_id = producer_id
        self.first_offset = first_offset

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.file, self.producer_id, self.first_offset)
