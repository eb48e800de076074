"""What producers were acknowledged: the records that the topics and the tables must have."""

from __future__ import annotations

import hashlib
import threading

Partition = tuple[str, int]
Address = tuple[str, int, int]
"""topic, partition, offset"""


def digest(key: bytes | None, value: bytes | None) -> bytes:
    """Eight bytes for a record's key and value; None and b"" differ."""
    parts = (b"-" if part is None else b"%d:" % len(part) + part for part in (key, value))
    return hashlib.blake2b(b"|".join(parts), digest_size=8).digest()


class Journal:
    """Records by address, from delivery reports alone; those of a transaction once its commit was acknowledged.

    `unsure` counts records whose producer was never answered: the topic may have them or not.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._acknowledged: dict[Address, bytes] = {}
        self.unsure = 0

    def acknowledge(self, records: dict[Address, bytes]) -> None:
        with self._lock:
            self._acknowledged.update(records)

    def doubt(self, count: int) -> None:
        with self._lock:
            self.unsure += count

    def forget(self, place: Partition, cut: int) -> None:
        """Records from an offset on are gone, and others will have their offsets."""
        with self._lock:
            self._acknowledged = {
                at: content for at, content in self._acknowledged.items() if at[:2] != place or at[2] < cut
            }

    def acknowledged(self) -> dict[Address, bytes]:
        with self._lock:
            return dict(self._acknowledged)
