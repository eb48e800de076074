"""The codecs of record batches by name and number, and a limit on what a batch may decompress to.

Producer, decoder, `kseg dump`, JSON, demo and benchmarks read this list. To add a codec: write a module with a `Codec`
beside this one and add it to `CODECS`; the tests of this module run over all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.segment_reader.codecs.codec import NO_BUFFER, Codec, CodecFault
from kseg.segment_reader.codecs.gzip import GZIP
from kseg.segment_reader.codecs.limits import DEFAULT_LIMIT
from kseg.segment_reader.codecs.lz4 import LZ4
from kseg.segment_reader.codecs.none import NONE
from kseg.segment_reader.codecs.snappy import SNAPPY
from kseg.segment_reader.codecs.zstd import ZSTD
from kseg.segment_reader.errors import Fault

#: In the order of their numbers.
CODECS: Final = (NONE, GZIP, SNAPPY, LZ4, ZSTD)
BY_NAME: Final[Mapping[str, Codec]] = {codec.name: codec for codec in CODECS}
BY_NUMBER: Final[Mapping[int, Codec]] = {codec.number: codec for codec in CODECS}


def decompress(
    number: int,
    data: bytes | memoryview,
    *,
    magic: int = 2,
    limit: int = DEFAULT_LIMIT,
    buffer: memoryview = NO_BUFFER,
) -> bytes | memoryview:
    """Decompress the records of one batch, whose attributes name the codec `number`.

    buffer: writable bytes, used where the result fits and the codec can: the result is then a view of them.

    Raises CodecFault: CODEC, DECOMPRESS, or TOO_LARGE above `limit` bytes. Raises MemoryError: that is no fault of the
    batch, which may be read with more memory.
    """
    codec = BY_NUMBER.get(number)
    if codec is None:
        raise CodecFault(Fault.CODEC)
    try:
        return codec.decompress(data, magic, limit, buffer)
    except (CodecFault, MemoryError):
        raise
    except Exception as error:  # each library has its own exception types, some of them bare RuntimeErrors
        raise CodecFault(Fault.DECOMPRESS, f"{codec.name}: {error}") from None


def compress(number: int, data: bytes, *, magic: int = 2, level: int | None = None) -> bytes:
    """Compress the records of one batch as the Java client does: framed snappy, 64 KB lz4 blocks, zstd without size.

    `level` is the library's own, None its default (zstd: 3); snappy has none.
    """
    return BY_NUMBER[number].compress(data, magic, level)
