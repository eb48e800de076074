"""Where log files are kept: bytes by range, listings by folder. Object stores are read by ranges only.

    storage, root = open_storage("/var/lib/kafka/data")
    storage, root = open_storage("s3://backups/broker-1")           through pyarrow.fs
    storage, root = open_storage("memory://copy")                   through fsspec, where pyarrow knows no such scheme

Files are read with a position given, never mapped: a broker may cut a file that we read, and reading mapped memory
beyond a file's new end would kill the process.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from pyarrow import fs

from segment_reader.log.errors import SegmentGone


@dataclass(frozen=True, slots=True)
class Entry:
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
    """A place that holds files under paths with "/" between names. Raises SegmentGone for what is not there."""

    def list(self, folder: str) -> list[Entry]:
        """What lies directly in a folder, by name."""

    def open(self, path: str) -> OpenFile: ...

    def read_all(self, path: str) -> bytes:
        """A small file, whole."""


class LocalFile:
    """A file on this machine, read into a buffer that is used again."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = _opened(path)
        self.size = os.fstat(self._descriptor).st_size
        self._buffer = bytearray()

    def read(self, position: int, length: int) -> memoryview:
        if len(self._buffer) < length:
            self._buffer = bytearray(length)
        view = memoryview(self._buffer)[:length]
        filled = 0
        while filled < length:
            got = os.preadv(self._descriptor, [view[filled:]], position + filled)
            if got == 0:
                break
            filled += got
        return view[:filled]

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise SegmentGone(path, None, "there is no such file") from None


class LocalStorage:
    """This machine's files."""

    def list(self, folder: str) -> list[Entry]:
        try:
            with os.scandir(folder) as found:
                entries = [_local_entry(entry) for entry in found]
        except FileNotFoundError:
            raise SegmentGone(folder, None, "there is no such folder") from None
        return sorted((entry for entry in entries if entry is not None), key=lambda entry: entry.name)

    def open(self, path: str) -> OpenFile:
        return LocalFile(path)

    def read_all(self, path: str) -> bytes:
        file = LocalFile(path)
        try:
            return bytes(file.read(0, file.size))
        finally:
            file.close()


def _local_entry(entry: os.DirEntry[str]) -> Entry | None:
    try:
        folder = entry.is_dir()
        return Entry(entry.name, folder, 0 if folder else entry.stat().st_size)
    except FileNotFoundError:
        return None  # deleted between being listed and being looked at


class ArrowFile:
    """A file of any file system that Arrow knows."""

    def __init__(self, path: str, file: pa.NativeFile) -> None:
        self.path = path
        self.size: int = file.size()
        self._file = file

    def read(self, position: int, length: int) -> memoryview:
        length = min(length, self.size - position)
        return memoryview(self._file.read_at(length, position) if length > 0 else b"")

    def close(self) -> None:
        self._file.close()


class ArrowStorage:
    """S3, Google Cloud Storage, Azure, HDFS and whatever else `pyarrow.fs` or fsspec reaches."""

    def __init__(self, filesystem: fs.FileSystem) -> None:
        self._filesystem = filesystem

    def list(self, folder: str) -> list[Entry]:
        try:
            found = self._filesystem.get_file_info(fs.FileSelector(folder))
        except FileNotFoundError:
            raise SegmentGone(folder, None, "there is no such folder") from None
        entries = [
            Entry(info.base_name, info.type == fs.FileType.Directory, info.size or 0)
            for info in found
            if info.type in (fs.FileType.File, fs.FileType.Directory)
        ]
        return sorted(entries, key=lambda entry: entry.name)

    def open(self, path: str) -> OpenFile:
        try:
            return ArrowFile(path, self._filesystem.open_input_file(path))
        except FileNotFoundError:
            raise SegmentGone(path, None, "there is no such file") from None

    def read_all(self, path: str) -> bytes:
        file = self.open(path)
        try:
            return bytes(file.read(0, file.size))
        finally:
            file.close()


def open_storage(location: str) -> tuple[Storage, str]:
    """The storage that a path or URI names, and the path in it. Raises ValueError for a URI that nobody knows."""
    if "://" not in location or location.startswith("file://"):
        return LocalStorage(), str(Path(location.removeprefix("file://")).absolute())
    try:
        filesystem, path = fs.FileSystem.from_uri(location)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        return _through_fsspec(location, error)
    return ArrowStorage(filesystem), path.rstrip("/")


def _through_fsspec(location: str, error: Exception) -> tuple[Storage, str]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise ValueError(f"{location}: {error} (fsspec, which may know it, is not installed)") from error
    try:
        filesystem, path = url_to_fs(location)
    except (ValueError, ImportError) as failure:
        raise ValueError(f"{location}: {failure}") from failure
    return ArrowStorage(fs.PyFileSystem(fs.FSSpecHandler(filesystem))), path.rstrip("/")
