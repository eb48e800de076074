"""Indexes, snapshots and checkpoints: what a broker writes is read, anything else is told with file and place."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kseg.segment_reader.log.errors import CorruptCheckpoint, CorruptIndex, CorruptSnapshot, LogFileError
from kseg.segment_reader.log.files import checkpoints
from kseg.segment_reader.log.files.indexes import AbortedEntry, aborted_transactions, offset_index, time_index
from kseg.segment_reader.log.files.producer_snapshots import ProducerState, producer_snapshot

FILE = "00000000000000000100.index"


def offsets_file(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def times_file(*entries: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def test_preallocated_zeros_are_no_entry() -> None:
    assert offset_index(offsets_file((10, 4096)) + bytes(800), 0, FILE).offsets.tolist() == [10]
    assert time_index(times_file((5, 1)) + bytes(1200), 0, FILE).timestamps.tolist() == [5]
    assert offset_index(bytes(10 << 20), 0, FILE).offsets.tolist() == []


@pytest.mark.parametrize("half", [(25, 0), (0, 9000)], ids=["first number", "second number"])
def test_an_entry_that_a_killed_broker_wrote_in_half_is_not_used(half: tuple[int, int]) -> None:
    index = offset_index(offsets_file((10, 4096), half) + bytes(800), 100, FILE)
    assert (index.offsets.tolist(), index.positions.tolist()) == ([110], [4096])
    times = time_index(times_file((1000, 7), half) + bytes(1200), 100, FILE)
    assert (times.timestamps.tolist(), times.offsets.tolist()) == ([1000], [107])


def test_an_entry_with_a_zero_is_told_where_others_follow_it() -> None:
    with pytest.raises(CorruptIndex, match="do not ascend"):
        offset_index(offsets_file((10, 4096), (25, 0), (30, 9000)), 100, FILE)


def test_entries_are_absolute_and_ascend() -> None:
    index = offset_index(offsets_file((10, 4096), (25, 9000)), 100, FILE)
    assert (index.offsets.tolist(), index.positions.tolist()) == ([110, 125], [4096, 9000])
    times = time_index(times_file((1000, 7), (2000, 7), (3000, 30)), 100, FILE)
    assert (times.timestamps.tolist(), times.offsets.tolist()) == ([1000, 2000, 3000], [107, 107, 130])


@pytest.mark.parametrize(
    ("data", "position"),
    [
        (offsets_file((10, 4096), (10, 5000)), 8),
        (offsets_file((10, 4096), (20, 4096)), 8),
        (offsets_file((10, 4096), (20, 6000), (30, 100)), 16),
        (offsets_file((-1, 4096)), 0),
        (offsets_file((10, 4096)) + b"abc", 8),
    ],
)
def test_an_offset_index_that_contradicts_itself_is_told(data: bytes, position: int) -> None:
    with pytest.raises(CorruptIndex) as told:
        offset_index(data, 0, FILE)
    assert (told.value.file, told.value.position) == (FILE, position)


def test_aborted_transactions_are_read() -> None:
    entry = struct.pack(">hqqqq", 0, 4001, 10, 25, 26)
    assert list(aborted_transactions(entry * 2, FILE)) == [AbortedEntry(4001, 10, 25, 26)] * 2


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">hqqqq", 1, 4001, 10, 25, 26),
        struct.pack(">hqqqq", 0, -1, 10, 25, 26),
        struct.pack(">hqqqq", 0, 4001, 30, 25, 26),
        struct.pack(">hqqqq", 0, 4001, 10, 25, 26)[:-1],
    ],
)
def test_an_impossible_aborted_transaction_is_told(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        list(aborted_transactions(data, FILE))


def snapshot(*states: ProducerState) -> bytes:
    body = struct.pack(">i", len(states)) + b"".join(struct.pack(">qhiqiqiq", *state) for state in states)
    return struct.pack(">hI", 1, crc32c(body)) + body


STATE = ProducerState(4001, 3, 19, 120, 9, 1_700_000_000_000, 5, 111)


def test_a_snapshot_is_read() -> None:
    assert producer_snapshot(snapshot(STATE, STATE), FILE) == [STATE, STATE]
    assert producer_snapshot(snapshot(), FILE) == []


@pytest.mark.parametrize("at", range(len(snapshot(STATE))))
def test_every_flipped_byte_of_a_snapshot_is_told(at: int) -> None:
    data = bytearray(snapshot(STATE))
    data[at] ^= 1
    with pytest.raises(CorruptSnapshot):
        producer_snapshot(bytes(data), FILE)


def test_checkpoints_are_read() -> None:
    assert checkpoints.leader_epochs(b"0\n2\n0 0\n4 170\n", FILE) == [(0, 0), (4, 170)]
    assert checkpoints.partition_offsets(b"0\n2\norders 0 17\n__x 3 9\n", FILE) == {("orders", 0): 17, ("__x", 3): 9}
    assert checkpoints.partition_offsets(b"0\n0\n", FILE) == checkpoints.partition_offsets(b"", FILE) == {}
    told = checkpoints.meta_properties(b"#\n#Sat\ncluster.id=ab-c_d\nnode.id = 1\nversion\\:x=1\n", FILE)
    assert (told["cluster.id"], told["node.id"]) == ("ab-c_d", "1")
    identity = checkpoints.topic_id(b"version: 0\ntopic_id: MFZxO4QYQl2iB34f_hEVVg", FILE)
    assert identity.hex == "3056713b8418425da2077e1ffe111556"


@pytest.mark.parametrize(
    "data",
    [
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\nmany\n",
        b"0\n1\n0\n",
        b"0\n1\n0 x\n",
        b"0\n2\n4 170\n4 180\n",
        b"0\n2\n4 170\n5 160\n",
        b"\xff\xfe",
    ],
)
def test_a_bad_checkpoint_is_told(data: bytes) -> None:
    with pytest.raises(CorruptCheckpoint):
        checkpoints.leader_epochs(data, FILE)


PARSERS: list[Any] = [
    lambda data: offset_index(data, 5, FILE),
    lambda data: time_index(data, 5, FILE),
    lambda data: list(aborted_transactions(data, FILE)),
    lambda data: producer_snapshot(data, FILE),
    lambda data: checkpoints.leader_epochs(data, FILE),
    lambda data: checkpoints.partition_offsets(data, FILE),
    lambda data: checkpoints.topic_id(data, FILE),
    lambda data: checkpoints.meta_properties(data, FILE),
]


@pytest.mark.parametrize("parser", PARSERS)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_told(parser: Any, data: bytes) -> None:
    error = None
    try:
        parser(data)
    except LogFileError as told:
        error = told
    if error is not None:
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.file) == (type(error), str(error), FILE)


def test_a_broker_s_own_files_are_read(kafka: Any) -> None:
    folder: Path = kafka.log_dirs[0]
    told = checkpoints.meta_properties((folder / "meta.properties").read_bytes(), "meta.properties")
    assert {"cluster.id", "node.id", "version"} <= set(told)
    for name in (checkpoints.LOG_START, checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS):
        path = folder / name
        if path.exists():
            checkpoints.partition_offsets(path.read_bytes(), str(path))
