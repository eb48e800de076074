"""The storage of log files: bytes by range, listings by folder.

Readers of a log use nothing but `Storage`: folders of partitions with their files, wherever and in whichever form they
are kept (`locations.open_storage`).

Files are read with a position given, never mapped: a broker may cut a file that we read, and reading mapped memory
beyond a file's new end would kill the process.
"""

from __future__ import annotations

import errno
import os
import stat
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kseg.segment_reader.log.errors import LogFileError, SegmentGone, StoreRefused

#: The layout of a broker's own folders: nothing has to be translated.
PLAIN: Final = "kafka"
#: Options whose names begin like this are the layout's, all others the store's.
LAYOUT_OPTION: Final = "layout."
_LISTINGS: Final = 20
_OTHER_USER: Final = "run as the broker's user, or copy it"
_NO_FILE: Final = "remove it, or put the segment in its place"


@dataclass(frozen=True, slots=True)
class StorageEntry:
    """A file (`size` in bytes) or a folder (`size` 0) by its name."""

    name: str
    is_folder: bool
    size: int


class OpenFile(Protocol):
    """One file, open. `size` is what it was when it was opened."""

    path: str
    size: int

    def read(self, position: int, length: int) -> memoryview:
        """Up to `length` bytes from `position`; fewer only at the file's end. The view is valid until the next read."""

    def close(self) -> None: ...


class Storage(Protocol):
    """Files under paths with "/" between names.

    All of it raises SegmentGone for what is not there, StoreRefused for what may not be read, StoreUnavailable where
    asking again may help.
    """

    def list(self, folder: str) -> list[StorageEntry]:
        """The entries directly in a folder, by name."""

    def open(self, path: str) -> OpenFile: ...

    def read_all(self, path: str) -> bytes:
        """A small file, whole."""


class LocalFile:
    """A file on this machine, read into a buffer that is used again."""

    _descriptor = -1

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = _opened(path)
        self.size = os.fstat(self._descriptor).st_size
        self._buffer = memoryview(b"")

    def read(self, position: int, length: int) -> memoryview:
        length = max(0, min(length, self.size - position))
        if len(self._buffer) < length:
            import numpy as np  # not above: `layouts` is for job files too, which are read before anything is

            self._buffer = memoryview(np.empty(length, np.uint8).data)  # not zeroed, so only what is read is touched
        view = self._buffer[:length]
        filled = 0
        while filled < length:
            try:
                got = os.preadv(self._descriptor, [view[filled:]], position + filled)
            except OSError as error:
                raise _refused(self.path, position + filled, error) from None
            if got == 0:
                break
            filled += got
        return view[:filled]

    def next_data(self, position: int) -> int:
        """The first position from there on that may not be zero, by the file system's list of holes; at most `size`."""
        try:
            return min(os.lseek(self._descriptor, position, os.SEEK_DATA), self.size)
        except OSError as error:
            return self.size if error.errno == errno.ENXIO else position

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __del__(self) -> None:
        """Closes a file that nobody has closed, as Python does with its own files, and a ResourceWarning names it."""
        if self._descriptor >= 0:
            self.close()
            warnings.warn(f"unclosed {self.path}", ResourceWarning, stacklevel=2, source=self)


def _opened(path: str) -> int:
    """Without waiting: a FIFO would be opened when somebody writes to it. Raises SegmentGone, StoreRefused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise _refused(path, None, error) from None
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise StoreRefused(path, None, "it is not a regular file", _NO_FILE)
    return descriptor


def _refused(path: str, position: int | None, error: OSError) -> LogFileError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return SegmentGone(path, None, "there is no such file")
    if isinstance(error, PermissionError):
        return StoreRefused(path, None, "this user may not read it", _OTHER_USER)
    why = error.strerror or str(error)
    if error.errno == errno.EIO:
        return StoreRefused(path, position, why, "the disk fails: see the system's log, and read another replica")
    remedy = _NO_FILE if error.errno in (errno.ELOOP, errno.ENXIO) else "mend what the system says of the file"
    return StoreRefused(path, position, why, remedy)


class LocalStorage:
    """This machine's files."""

    def list(self, folder: str) -> list[StorageEntry]:
        """Listed until two listings in a row name the same: a file that is renamed while a folder is being listed may
        be missed under both of its names."""
        found = self._listed(folder)
        for _ in range(_LISTINGS):
            known, found = found, self._listed(folder)
            if [entry.name for entry in known] == [entry.name for entry in found]:
                return [*found]
        raise SegmentGone(folder, None, "its files change faster than they can be listed")

    def _listed(self, folder: str) -> Sequence[StorageEntry]:
        try:
            with os.scandir(folder) as found:
                entries = [_local_entry(entry) for entry in found]
        except (FileNotFoundError, NotADirectoryError):
            raise SegmentGone(folder, None, "there is no such folder") from None
        except PermissionError:
            raise StoreRefused(folder, None, "this user may not list it", _OTHER_USER) from None
        except OSError as error:
            raise _refused(folder, None, error) from None
        return sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.name)

    def open(self, path: str) -> OpenFile:
        return LocalFile(path)

    def read_all(self, path: str) -> bytes:
        file = LocalFile(path)
        try:
            return bytes(file.read(0, file.size))
        finally:
            file.close()


def _local_entry(entry: os.DirEntry[str]) -> StorageEntry | None:
    try:
        folder = entry.is_dir()
        return StorageEntry(entry.name, folder, 0 if folder else entry.stat().st_size)
    except FileNotFoundError:
        return None  # deleted after it was listed
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return StorageEntry(entry.name, False, 0)  # a link to itself: whoever needs the file is told when it is opened
