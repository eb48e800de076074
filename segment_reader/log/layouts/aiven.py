"""The objects of Aiven's tiered storage plug-in (Apache-licensed), as versions 1.0 and 1.1 write them.

    <root>/<topic>-<topic id>/<partition>/<base offset, 20 digits>-<segment id>.log              chunks: chunks.py
                                                                               .indexes          small files, end to end
                                                                               .rsm-manifest     JSON: manifest.py

The manifest is written last: a segment without one is not whole. Root is the place with the plug-in's `key.prefix`,
which has to end with "/" (or be empty).

Encrypted objects have data keys that are wrapped by RSA (OAEP, SHA3-512).
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

from kseg.segment_reader.log.errors import LayoutError, SegmentGone
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.layouts.chunks import ChunkedFile, Cipher
from kseg.segment_reader.log.layouts.manifest import Encryption, Manifest, kafka_id, parse_manifest
from kseg.segment_reader.log.layouts.remote import File, RemotePartition, RemoteSegment

_KEY = "key."


class KeyRing:
    """RSA private keys by id, from options `key.<id>`: PEM, or the path of a PEM file. Ids match in any case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """Raises ValueError for a key that cannot be read."""
        self._keys = {name.removeprefix(_KEY).lower(): _pem(name, text) for name, text in options.items()}

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(sorted(self._keys))})"

    def data_key(self, encryption: Encryption, file: str) -> bytes:
        """The AES key of one segment. Raises LayoutError where the key is not there, or does not fit."""
        pem = self._keys.get(encryption.key_id.lower())
        if pem is None:
            raise LayoutError(
                file,
                None,
                f"it is encrypted under key {encryption.key_id!r}: give that RSA private key as the option "
                f"layout.key.{encryption.key_id} (PEM, or the path of a PEM file)",
            )
        try:
            from Crypto.Cipher import PKCS1_OAEP
            from Crypto.Hash import SHA3_512
            from Crypto.PublicKey import RSA
        except ImportError:
            raise LayoutError(
                file, None, "it is encrypted: to decrypt its key, install pycryptodome (kafka-segment-etl[tiered])"
            ) from None
        try:
            key = PKCS1_OAEP.new(RSA.import_key(pem), hashAlgo=SHA3_512).decrypt(encryption.wrapped_key)
        except (ValueError, TypeError, IndexError):
            key = b""
        if len(key) != 32:
            raise LayoutError(
                file,
                None,
                f"its data key cannot be decrypted: it was encrypted with another key than {encryption.key_id!r}",
            )
        return bytes(key)


def _pem(name: str, text: str) -> str:
    if not name.startswith(_KEY):
        raise ValueError(f"layout.{name} is not an option of this layout: it has layout.local and layout.key.<id>")
    if "-----BEGIN" in text:
        return text
    try:
        return Path(text).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"layout.{name}: cannot read {text}: {getattr(error, 'strerror', None) or error}") from None


_TOPIC: Final = re.compile(r"(.{1,249})-([A-Za-z0-9_-]{22})")
_NUMBER: Final = re.compile(r"\d{1,10}")
_MANIFEST: Final = re.compile(r"(\d{20})-([A-Za-z0-9_-]{22})\.rsm-manifest")
_AT_ONCE: Final = 16
_KEPT: Final = 50_000


class _Manifests:
    """Manifests by their path: they never change, and each task of a read needs all of its partition's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Manifest] = OrderedDict()

    def of(self, storage: Storage, path: str) -> Manifest:
        with self._lock:
            found = self._known.get(path)
        if found is None:
            found = parse_manifest(storage.read_all(path), path)
            with self._lock:
                self._known[path] = found
                while len(self._known) > _KEPT:
                    self._known.popitem(last=False)
        return found


class Aiven:
    """See the module. Options: `key.<id>`, the RSA private keys of encrypted segments."""

    def __init__(self, storage: Storage, root: str, options: Mapping[str, str]) -> None:
        """Raises ValueError for options that are no keys."""
        self._storage = storage
        self._root = root
        self._keys = KeyRing(options)
        self._manifests = _Manifests()

    def partitions(self) -> list[RemotePartition]:
        found = []
        for topic in self._storage.list(self._root):
            named = _TOPIC.fullmatch(topic.name) if topic.is_folder else None
            if named is None:
                continue
            try:
                topic_id = kafka_id(named[2])
            except ValueError:
                continue
            folder = f"{self._root}/{topic.name}"
            found += [
                RemotePartition(named[1], int(entry.name), topic_id, f"{folder}/{entry.name}")
                for entry in self._storage.list(folder)
                if entry.is_folder and _NUMBER.fullmatch(entry.name)
            ]
        return found

    def segments(self, partition: RemotePartition) -> list[RemoteSegment]:
        names = [entry.name for entry in self._storage.list(partition.address) if _MANIFEST.fullmatch(entry.name)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            found = list(pool.map(lambda name: self._segment(partition, name), names))
        return [segment for segment in found if segment is not None]

    def open(self, segment: RemoteSegment) -> OpenFile:
        manifest, cipher = self._opened(segment)
        file = self._storage.open(f"{segment.address}.log")
        try:
            return ChunkedFile(file, manifest, cipher)
        except LayoutError:
            file.close()
            raise

    def read(self, segment: RemoteSegment, file: File) -> bytes:
        manifest, cipher = self._opened(segment)
        if file not in manifest.indexes:
            raise SegmentGone(f"{segment.address}.indexes", None, f"the segment has no {file}")
        position, size = manifest.indexes[file]
        if size == 0:
            return b""
        path = f"{segment.address}.indexes"
        with closing(self._storage.open(path)) as opened:
            data = bytes(opened.read(position, size))
        if len(data) < size:
            raise LayoutError(path, position, f"the {file} is cut off: {len(data)} of {size} bytes are there")
        return data if cipher is None else cipher.opened(data, path, position)

    def _segment(self, partition: RemotePartition, name: str) -> RemoteSegment | None:
        path = f"{partition.address}/{name}"
        try:
            manifest = self._manifests.of(self._storage, path)
        except SegmentGone:
            return None  # deleted since it was listed
        base = int(name[:20])
        if (manifest.topic_id, manifest.partition, manifest.start_offset) != (
            partition.topic_id,
            partition.partition,
            base,
        ):
            found = f"{manifest.topic}-{manifest.partition} at offset {manifest.start_offset} ({manifest.topic_id})"
            raise LayoutError(path, None, f"the manifest is another segment's: {found}")
        overhead = 28 if manifest.encryption is not None else 0
        files: dict[File, int] = {
            file: max(0, size - overhead if size else 0) for file, (_, size) in manifest.indexes.items()
        }
        return RemoteSegment(
            base,
            path.removesuffix(".rsm-manifest"),
            manifest.size,
            manifest.end_offset + 1,
            manifest.epochs,
            manifest.uploaded_ms,
            {"log": manifest.size, **files},
        )

    def _opened(self, segment: RemoteSegment) -> tuple[Manifest, Cipher | None]:
        path = f"{segment.address}.rsm-manifest"
        manifest = self._manifests.of(self._storage, path)
        if manifest.encryption is None:
            return manifest, None
        return manifest, Cipher(self._keys.data_key(manifest.encryption, path), manifest.encryption.aad)
