"""The user data of the sticky assignors, inside of the consumer protocol: big-endian, without a version.

sticky               the member's previous partitions by topic, and their generation (missing from clients before 2.3)
cooperative-sticky   only the generation: the partitions are in the subscription itself
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from kseg.client.membership.assignor import NO_GENERATION
from kseg.client.protocol.partition import TopicPartition


def encode_owned(partitions: Iterable[TopicPartition], generation: int) -> bytes:
    """Sticky's user data."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    out = [struct.pack(">i", len(topics))]
    for topic, numbers in topics.items():
        name = topic.encode()
        out.append(struct.pack(f">h{len(name)}si{len(numbers)}i", len(name), name, len(numbers), *numbers))
    return b"".join([*out, struct.pack(">i", generation)])


def decode_owned(data: bytes) -> tuple[tuple[TopicPartition, ...], int | None]:
    """Partitions and generation (None: not in the data). Malformed data counts as no partitions, generation -1."""
    try:
        partitions, end = _read(data)
        generation = struct.unpack_from(">i", data, end)[0] if len(data) - end >= 4 else None
    except (struct.error, ValueError):
        return (), NO_GENERATION
    return tuple(partitions), generation


def _read(data: bytes) -> tuple[list[TopicPartition], int]:
    (count,), at = struct.unpack_from(">i", data), 4
    _check(0 <= count <= len(data))
    partitions: list[TopicPartition] = []
    for _ in range(count):
        (length,) = struct.unpack_from(">h", data, at)
        _check(0 <= length <= len(data) - at - 2)
        topic = data[at + 2 : at + 2 + length].decode()
        at += 2 + length
        (size,) = struct.unpack_from(">i", data, at)
        _check(0 <= size <= (len(data) - at - 4) // 4)
        partitions += [TopicPartition(topic, number) for number in struct.unpack_from(f">{size}i", data, at + 4)]
        at += 4 + 4 * size
    return partitions, at


def _check(valid: bool) -> None:
    if not valid:
        raise ValueError("no such length")


def encode_generation(generation: int) -> bytes:
    """Cooperative sticky's user data."""
    return struct.pack(">i", generation)


def decode_generation(data: bytes) -> int:
    """The generation; -1 if there are fewer than four bytes."""
    return int(struct.unpack_from(">i", data)[0]) if len(data) >= 4 else NO_GENERATION
