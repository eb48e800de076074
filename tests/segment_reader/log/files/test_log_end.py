"""What is found behind a log's last whole batch, and what that costs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from kseg.segment_reader.encode.batches import Record, encode_batch
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files import log_end
from kseg.segment_reader.log.files.storage import LocalStorage

LONGER = 1 << 30  # a flipped bit of a length


def flipped(values: list[bytes], base: int) -> bytes:
    batch = bytearray(encode_batch([Record(value=value) for value in values], base_offset=base))
    batch[8] ^= LONGER >> 24
    return bytes(batch)


def numbers(count: int, offset: int) -> bytes:
    """A record's value with the numbers of a header: offset, length, magic, last offset delta; other bytes are 9."""
    header = offset.to_bytes(8, "big") + (200).to_bytes(4, "big") + b"\x09" * 4 + b"\2" + b"\x09" * 6 + bytes(4)
    header += b"\x09" * 20
    return header * count


def check(folder: Path, data: bytes, edge: int) -> None:
    path = folder / f"{edge:020d}.log"
    path.write_bytes(data)
    with closing(LocalStorage().open(str(path))) as file:
        log_end.check_log_end(file, 0, edge, may_be_torn=True)


@pytest.fixture
def checksums(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The positions of the batches whose checksums were computed."""
    found: list[int] = []
    real = log_end.checksum_holds

    def counted(file: log_end.OpenFile, position: int, size: int) -> bool:
        found.append(position)
        return real(file, position, size)

    monkeypatch.setattr(log_end, "checksum_holds", counted)
    return found


@pytest.mark.parametrize("offset", [(1 << 31) + 5, 1 << 40, (1 << 63) - 300, 4])
def test_numbers_that_are_no_offsets_of_the_segment_cost_no_checksum(
    tmp_path: Path, checksums: list[int], offset: int
) -> None:
    content = flipped([numbers(50, offset)], 5) + flipped([b"v"], 6)
    check(tmp_path, content[:-3], 5)
    assert checksums == []


@pytest.mark.parametrize("gap", [0, 1000, (1 << 31) - 10])
def test_a_whole_batch_behind_a_flipped_length_is_found(tmp_path: Path, gap: int) -> None:
    following = encode_batch([Record(value=b"w")], base_offset=6 + gap)
    with pytest.raises(LogDamaged, match="a whole batch follows"):
        check(tmp_path, flipped([b"v"], 5) + following, 5)
