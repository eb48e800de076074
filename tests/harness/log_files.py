"""Log files for tests: a partition's folder as a broker leaves it, made from batches; storage that counts what is read.

The fixture `log_files` is this module.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import crc32c

from kseg.segment_reader.decode.batch import ABORT_MARKER, Frame, frames
from kseg.segment_reader.decode.reference import control_type
from kseg.segment_reader.log.files.storage import LocalStorage, OpenFile, StorageEntry

INDEX_INTERVAL = 4096
_MOST_CONTROL = 1 << 20


@dataclass
class _Producer:
    epoch: int
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp: int = -1
    coordinator_epoch: int = -1
    first_offset: int = -1  # of the open transaction


def write_partition(
    folder: Path,
    segments: Iterable[Sequence[bytes]],
    *,
    interval: int = INDEX_INTERVAL,
    bases: Sequence[int] | None = None,
) -> None:
    """Writes segments, each a list of encoded batches, as `UnifiedLog` does: an index entry after every `interval`
    bytes, the largest timestamp again when a segment is rolled, and a snapshot where a segment begins and at the end.

    bases: the segments' base offsets, where they are not their first batch's: a compressed old message bears its last.
    """
    folder.mkdir(parents=True, exist_ok=True)
    producers: dict[int, _Producer] = {}
    end = 0
    for number, batches in enumerate(segments):
        base = next(frames(batches[0])).base_offset if bases is None else bases[number]
        end = _write_segment(folder, base, batches, interval, producers, snapshot=number > 0)
    _write_snapshot(folder, end, producers)


def _write_segment(
    folder: Path, base: int, batches: Sequence[bytes], interval: int, producers: dict[int, _Producer], *, snapshot: bool
) -> int:
    stem = f"{base:020d}"
    if snapshot:
        _write_snapshot(folder, base, producers)
    offsets, times, aborted = bytearray(), bytearray(), bytearray()
    position = since = 0
    largest, at_largest, told = -1, base, -1
    end = base
    with (folder / f"{stem}.log").open("wb") as log:
        for batch in batches:
            if since > interval:
                offsets += struct.pack(">ii", next(frames(batch)).last_offset - base, position)
                if largest > told:
                    times += struct.pack(">qi", largest, at_largest - base)
                    told = largest
                since = 0
            for frame in frames(batch):
                if frame.max_timestamp > largest:
                    largest, at_largest = frame.max_timestamp, frame.last_offset
                aborted += _follow(batch, frame, producers)
                end = frame.next_offset
            log.write(batch)
            position += len(batch)
            since += len(batch)
    if largest > told:
        times += struct.pack(">qi", largest, at_largest - base)
    (folder / f"{stem}.index").write_bytes(offsets)
    (folder / f"{stem}.timeindex").write_bytes(times)
    if aborted:
        (folder / f"{stem}.txnindex").write_bytes(aborted)
    return end


def _follow(batch: bytes, frame: Frame, producers: dict[int, _Producer]) -> bytes:
    """Moves a producer's state on; gives the .txnindex entry of a transaction that ends as aborted."""
    if frame.magic < 2 or frame.producer_id < 0:
        return b""
    state = producers.setdefault(frame.producer_id, _Producer(frame.producer_epoch))
    state.epoch, state.timestamp = frame.producer_epoch, frame.max_timestamp
    if not frame.control:
        state.last_offset, state.offset_delta = frame.last_offset, frame.last_offset - frame.base_offset
        state.last_sequence = frame.base_sequence + state.offset_delta
        if frame.transactional and state.first_offset < 0:
            state.first_offset = frame.base_offset
        return b""
    began, state.first_offset = state.first_offset, -1
    if began < 0 or control_type(batch, frame, _MOST_CONTROL) != ABORT_MARKER:
        return b""
    stable = min((other.first_offset for other in producers.values() if other.first_offset >= 0), default=0)
    return struct.pack(">hqqqq", 0, frame.producer_id, began, frame.base_offset, stable or frame.next_offset)


def _write_snapshot(folder: Path, offset: int, producers: dict[int, _Producer]) -> None:
    body = struct.pack(">i", len(producers)) + b"".join(
        struct.pack(
            ">qhiqiqiq",
            producer,
            state.epoch,
            state.last_sequence,
            state.last_offset,
            state.offset_delta,
            state.timestamp,
            state.coordinator_epoch,
            state.first_offset,
        )
        for producer, state in producers.items()
    )
    head = struct.pack(">hI", 1, crc32c.crc32c(body))
    (folder / f"{offset:020d}.snapshot").write_bytes(head + body)


@dataclass
class CountingStorage:
    """This machine's files; every request that an object store would be asked is noted."""

    lists: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    reads: list[tuple[str, int, int]] = field(default_factory=list)  # path, position, bytes that came back

    def list(self, folder: str) -> list[StorageEntry]:  # type: ignore[valid-type]
        self.lists.append(folder)
        return LocalStorage().list(folder)

    def open(self, path: str) -> OpenFile:
        self.opened.append(path)
        return _CountingFile(LocalStorage().open(path), self.reads)

    def read_all(self, path: str) -> bytes:
        data = LocalStorage().read_all(path)
        self.reads.append((path, 0, len(data)))
        return data

    def bytes_of(self, ending: str) -> int:
        """Bytes read of files with that ending."""
        return sum(size for path, _, size in self.reads if path.endswith(ending))

    def names(self, ending: str) -> set[str]:
        """Names of files with that ending of which something was read."""
        return {Path(path).name for path, _, _ in self.reads if path.endswith(ending)}

    def reset(self) -> None:
        for noted in (self.lists, self.opened, self.reads):
            noted.clear()


class _CountingFile:
    def __init__(self, file: OpenFile, reads: list[tuple[str, int, int]]) -> None:
        self.path, self.size = file.path, file.size
        self._file, self._reads = file, reads

    def read(self, position: int, length: int) -> memoryview:
        data = self._file.read(position, length)
        self._reads.append((self.path, position, len(data)))
        return data

    def close(self) -> None:
        self._file.close()
