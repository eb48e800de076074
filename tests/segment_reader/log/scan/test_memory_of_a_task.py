"""What reading takes of memory: some windows and batches, whatever a segment's size, and whatever a header claims."""

from __future__ import annotations

import json
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kseg.segment_reader.decode.batch import RECORD_BATCH
from kseg.segment_reader.encode.batches import Record, encode_batch

MB = 1 << 20

# Not by `getrusage`: there a program inherits the peak of the process that has started it, and all that it takes itself
# disappears below that of a pytest that has run for long.
READS = """
import json, sys
from pathlib import Path
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.scan.record_sets import record_sets
from kseg.segment_reader.log.files.segments import open_log
from kseg.segment_reader.log.files.storage import LocalStorage

def peak():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM:")).split()[1])

def read(folder, end):
    log = open_log(LocalStorage(), folder, "t", 0)
    decoder = RangeDecoder("t", 0, 0, end, isolation_level="read_committed", provenance=True)
    rows = 0
    for found in record_sets(LocalStorage(), log, 0, end, read_committed=True):
        for batch in decoder.feed(found.records, found.aborted, file=found.file, position=found.position):
            rows += batch.num_rows
    return rows + sum(batch.num_rows for batch in decoder.finish())

small, end, large, large_end = sys.argv[1:]
rows = read(small, int(end))
before = peak()
try:
    told = read(large, int(large_end))
except LogDamaged as error:
    told = error.reason
print(json.dumps([rows, before, told, peak()]))
"""


def grown(small: tuple[Path, int], large: tuple[Path, int]) -> tuple[Any, int]:
    """What reading the large log gave, and by how much its peak lies above that of reading the small one."""
    arguments = [str(small[0]), str(small[1]), str(large[0]), str(large[1])]
    done = subprocess.run(
        [sys.executable, "-c", READS, *arguments], capture_output=True, text=True, timeout=900, check=True
    )
    rows, before, told, after = json.loads(done.stdout)
    assert rows == small[1]
    return told, after - before


def log_of(folder: Path, size: int, batch: int) -> tuple[Path, int]:
    """A segment of one size, of batches of one size with ten records each, and the offset after them."""
    folder.mkdir(parents=True)
    rng = random.Random(1)
    made = bytearray(
        encode_batch(
            [Record(None, rng.randbytes(batch // 10)) for _ in range(10)],
            producer_id=5,
            producer_epoch=0,
            base_sequence=0,
        )
    )
    count = max(1, size // len(made))
    with (folder / f"{0:020d}.log").open("wb") as file:
        for number in range(count):
            struct.pack_into(">q", made, 0, number * 10)  # outside of what the checksum covers
            file.write(made)
    return folder, count * 10


def test_a_large_segment_takes_no_more_than_a_small_one(tmp_path: Path, scale: Callable[[int, int], int]) -> None:
    small = log_of(tmp_path / "small" / "t-0", 24 * MB, 16_000)
    large = log_of(tmp_path / "large" / "t-0", scale(256, 1024) * MB, 16_000)
    rows, more = grown(small, large)
    assert rows == large[1]
    assert more < 48 * MB


def test_large_batches_take_some_of_them(tmp_path: Path, scale: Callable[[int, int], int]) -> None:
    small = log_of(tmp_path / "small" / "t-0", 24 * MB, 16_000)
    size = 24 * MB  # larger than a window, and than what is believed without a look at the checksum
    large = log_of(tmp_path / "large" / "t-0", scale(8, 40) * size, size)
    rows, more = grown(small, large)
    assert rows == large[1]
    assert more < 7 * size


def test_a_header_that_claims_gigabytes_takes_none(tmp_path: Path, scale: Callable[[int, int], int]) -> None:
    small = log_of(tmp_path / "small" / "t-0", 24 * MB, 16_000)
    folder = tmp_path / "lies" / "t-0"
    folder.mkdir(parents=True)
    claimed = scale(700 * MB, (1 << 31) - 1)
    head = bytearray(encode_batch([Record(b"k", b"v")], base_offset=10)[: RECORD_BATCH.size])
    struct.pack_into(">i", head, 8, claimed)
    with (folder / f"{0:020d}.log").open("wb") as file:
        file.write(encode_batch([Record(b"k", b"v")] * 10) + head)
        file.truncate(claimed + 10 * MB)  # sparse: it is there, and takes no room
    told, more = grown(small, (folder, 20))
    assert "checksum" in told
    assert more < 48 * MB
