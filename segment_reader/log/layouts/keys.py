"""The keys that open what a tiered storage plug-in encrypted: data keys wrapped by RSA (OAEP, SHA3-512)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kseg.segment_reader.log.errors import LayoutError
from kseg.segment_reader.log.layouts.manifest import Encryption

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
