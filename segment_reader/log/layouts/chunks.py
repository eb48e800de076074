"""A .log that lies in an object as chunks, each compressed and encrypted by itself.

    position in the .log ──► chunk ──► bytes of it in the object ──► AES-256-GCM ──► Zstandard ──► the .log's bytes

An encrypted chunk is nonce (12 bytes), ciphertext, tag (16 bytes).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import zstandard
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from kseg.segment_reader.log.errors import LayoutError
from kseg.segment_reader.log.files.storage import OpenFile
from kseg.segment_reader.log.layouts.manifest import Manifest

_NONCE: Final = 12
_TAG: Final = 16
_KEPT: Final = 2


@dataclass(frozen=True)
class Cipher:
    """A segment's data key, ready to open what was encrypted with it."""

    key: bytes = field(repr=False)
    aad: bytes = field(repr=False)

    def opened(self, data: memoryview | bytes, file: str, position: int) -> bytes:
        """Raises LayoutError."""
        if len(data) < _NONCE + _TAG:
            raise LayoutError(file, position, f"{len(data)} bytes are too few for encrypted data")
        try:
            return AESGCM(self.key).decrypt(bytes(data[:_NONCE]), bytes(data[_NONCE:]), self.aad)
        except InvalidTag:
            raise LayoutError(file, position, "it was changed after it was encrypted, or under another key") from None


class ChunkedFile:
    """See the module. `path` is the object's; positions are those of the .log."""

    def __init__(self, file: OpenFile, manifest: Manifest, cipher: Cipher | None) -> None:
        """Raises LayoutError where object and manifest do not belong to each other."""
        self.path = file.path
        self.size = manifest.size
        self._file = file
        self._manifest = manifest
        self._cipher = cipher
        self._kept: dict[int, bytes] = {}
        if file.size != manifest.starts[-1]:
            raise LayoutError(file.path, None, f"it has {file.size} bytes, and by its manifest {manifest.starts[-1]}")

    def read(self, position: int, length: int) -> memoryview:
        end = min(self.size, position + length)
        if end <= position:
            return memoryview(b"")
        step = self._manifest.chunk_size
        first, last = position // step, (end - 1) // step
        chunks = [self._chunk(number) for number in range(first, last + 1)]
        if first == last:
            return memoryview(chunks[0])[position - first * step : end - first * step]
        chunks[0] = chunks[0][position - first * step :]
        chunks[-1] = chunks[-1][: end - last * step]
        return memoryview(b"".join(chunks))

    def close(self) -> None:
        self._file.close()
        self._kept.clear()

    def _chunk(self, number: int) -> bytes:
        known = self._kept.get(number)
        if known is not None:
            return known
        begin, end = (int(edge) for edge in self._manifest.starts[number : number + 2])
        data: bytes | memoryview = self._file.read(begin, end - begin)
        if len(data) < end - begin:
            raise LayoutError(self.path, begin, f"chunk {number} is cut off")
        if self._cipher is not None:
            data = self._cipher.opened(data, self.path, begin)
        original = min(self._manifest.chunk_size, self.size - number * self._manifest.chunk_size)
        if self._manifest.compressed:
            data = self._unpacked(data, begin, original)
        if len(data) != original:
            raise LayoutError(self.path, begin, f"chunk {number} holds {len(data)} bytes, not {original}")
        while len(self._kept) >= _KEPT:
            self._kept.pop(next(iter(self._kept)))
        self._kept[number] = bytes(data)
        return self._kept[number]

    def _unpacked(self, data: bytes | memoryview, position: int, size: int) -> bytes:
        try:
            content_size = zstandard.get_frame_parameters(data).content_size
            if content_size not in (size, zstandard.CONTENTSIZE_UNKNOWN):
                raise LayoutError(self.path, position, f"a chunk of {content_size} bytes, where {size} are expected")
            return zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        except zstandard.ZstdError as error:
            raise LayoutError(self.path, position, f"a chunk that is not a Zstandard frame: {error}") from None
