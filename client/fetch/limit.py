"""Limits of the bytes that a Fetch asks for, and messages that are larger than that.

From version 3 on (Kafka 0.10.1) a limit is soft: the first message, or batch, comes whole. Older brokers send of a
larger message only as much as was asked for, so a reader would never get past it: there the limit is raised, up to a
largest one.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from kseg.client.errors import MessageCutShort, ProtocolFault

#: What a broker before 0.10.1 is asked for at most, if one message is larger than the limit.
LARGEST_MESSAGE: Final = 128 * 1024 * 1024

_FIRST_WITH_WHOLE_MESSAGES: Final = 3
_MESSAGE_HEAD: Final = Struct(">qi")  # of every format: offset, and the length of what follows


class FetchLimit:
    """`bytes` is what to ask for; it grows when an old broker has a larger message, up to `largest`."""

    def __init__(self, max_bytes: int, largest: int) -> None:
        self.bytes = max_bytes
        self._largest = max(largest, max_bytes)

    def raised_for(self, records: memoryview, offset: int, version: int, broker: str) -> bool:
        """Whether a broker before 0.10.1 sent only a part of its first message: `raised_to_whole`, for these alone."""
        return version < _FIRST_WITH_WHOLE_MESSAGES and self.raised_to_whole(records, offset, broker)

    def raised_to_whole(self, records: memoryview, offset: int, broker: str) -> bool:
        """Whether an answer holds only a part of its first message, and the limit was raised to ask for it again.

        Raises MessageCutShort if the message is larger than the largest limit, ProtocolFault if it should have come.
        """
        size = size_if_cut(records)
        if not size:
            return False
        if size <= self.bytes:
            raise ProtocolFault(
                f"the Fetch response from offset {offset} has {len(records)} of a message's {size} bytes, although "
                f"{self.bytes} were requested",
                broker=broker,
            )
        if size > self._largest:
            raise MessageCutShort(
                f"the message from offset {offset} on has {size} bytes, and {self._largest} are asked for at most; "
                "this broker sends no message above what it is asked for: read on after it, or set "
                "max.partition.fetch.bytes and fetch.max.bytes to as much as it has",
                offset=offset,
                size=size,
                broker=broker,
            )
        self.bytes = size
        return True


def size_if_cut(records: memoryview) -> int:
    """The size of the first message with its offset and length, if it is not there as a whole; 0 if it is, or none.

    Where even its length is cut off, more than was asked for is all that is known of it.
    """
    if not len(records):
        return 0
    if len(records) < _MESSAGE_HEAD.size:
        return 1024
    _, length = _MESSAGE_HEAD.unpack_from(records)
    size = _MESSAGE_HEAD.size + int(length)
    return size if size > len(records) else 0
