"""How much memory decoding takes: a group and an Arrow batch, whatever the size of the range or of one record."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch

MB = 1 << 20


def test_unpacking_takes_a_group_at_a_time(scale: Callable[[int, int], int]) -> None:
    rows = [Record(b"%d" % i, b"v" * 4000) for i in range(250)]  # 1 MB, packed to some kilobytes
    count = scale(100, 1000)
    answer = b"".join(encode_batch(rows, base_offset=250 * i, compression="lz4") for i in range(count))
    limits = Limits(max_rows=1000, max_bytes=8 * MB, group_bytes=2 * MB)
    decoder = RangeDecoder("t", 0, 0, 250 * count, isolation_level="read_committed", limits=limits)
    list(decoder.feed(answer[: len(answer) // count]))
    tracemalloc.start()
    total = sum(batch.nbytes for batch in decoder.feed(answer))
    total += sum(batch.nbytes for batch in decoder.finish())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total > count * MB * 0.9
    assert peak < 24 * MB


def test_a_huge_record_is_a_batch_of_its_own(scale: Callable[[int, int], int]) -> None:
    size = scale(80 * MB, 1900 * MB)
    small = [Record(b"a", b"b")] * 3
    answer = b"".join(
        (
            encode_batch(small),
            encode_batch([Record(b"k", bytes(size))], base_offset=3),
            encode_batch(small, base_offset=4),
        )
    )
    decoder = RangeDecoder("t", 0, 0, 7, isolation_level="read_committed")
    batches = [*decoder.feed(answer), *decoder.finish()]
    assert [batch.num_rows for batch in batches] == [3, 1, 3]
    assert len(batches[1].column("value")[0].as_buffer()) == size
    assert batches[0].nbytes + batches[2].nbytes < 1000


def test_batches_stay_below_their_limit_in_bytes() -> None:
    rows = [Record(b"k" * 300, b"v" * 900, [("h" * 50, b"w" * 50)] * 5, 1) for _ in range(2000)]
    answer = encode_batch(rows)
    for size in (20_000, 300_000, MB):
        decoder = RangeDecoder(
            "a-topic", 0, 0, 2000, isolation_level="read_committed", provenance=True, limits=Limits(max_bytes=size)
        )
        batches = [*decoder.feed(answer), *decoder.finish()]
        assert sum(batch.num_rows for batch in batches) == 2000
        assert all(size * 0.8 < batch.nbytes <= size for batch in batches[:-1])


def test_a_reader_that_keeps_one_batch_takes_about_twice_its_size() -> None:
    """The one that it has, and the one that is being made; in between nothing is allocated for a third."""
    rows = [Record(b"k" * 20, b"v" * 1000)] * 1000
    answer = b"".join(encode_batch(rows, base_offset=1000 * i) for i in range(32))
    limits = Limits(max_rows=10_000, max_bytes=8 * MB, group_bytes=MB)
    first, decoder = (
        RangeDecoder("t", 0, 0, 32_000, isolation_level="read_committed", limits=limits) for _ in range(2)
    )
    list(first.feed(answer[: len(answer) // 32]))  # loads what is compiled
    after = 0
    tracemalloc.start()
    batches = decoder.feed(answer)
    largest = next(batches).nbytes  # the first one's columns have grown to it
    tracemalloc.reset_peak()
    for batch in batches:
        after = max(after, tracemalloc.get_traced_memory()[0])
        largest = max(largest, batch.nbytes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert largest > 7 * MB
    assert after < 1.25 * largest + 2 * MB
    assert peak < 2.25 * largest + 2 * MB
