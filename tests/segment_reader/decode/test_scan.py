"""Planning frames: what a list of aborted transactions costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kseg.segment_reader.decode import scan
from kseg.segment_reader.decode.compiled import FRAMES
from kseg.segment_reader.decode.table import WIDTH, as_bytes
from kseg.segment_reader.encode.batches import Record, encode_batch


class _Counting:
    """An array that counts how often it is read or written."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape, self.count = array, array.shape, 0

    def __getitem__(self, place: Any) -> Any:
        self.count += 1
        return self.array[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        self.count += 1
        self.array[place] = value


@pytest.mark.parametrize("entries", [1_000, 20_000])
def test_the_list_of_aborted_transactions_is_walked_once(entries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_place", scan._place.py_func)
    frames = 50
    rows = [Record(b"k", b"v", timestamp=1)]
    options = {"producer_epoch": 0, "base_sequence": 0, "transactional": True}
    data = b"".join(encode_batch(rows, base_offset=i, producer_id=10**7, **options) for i in range(frames))
    table, closed = np.zeros((FRAMES, WIDTH), np.int64), np.empty((FRAMES, 2), np.int64)
    n, _, _ = scan.scan(as_bytes(memoryview(data)), 0, len(data), table)
    pending = _Counting(np.stack([np.zeros(entries, np.int64), np.arange(entries)], axis=1))
    producers, opened = _Counting(np.arange(entries)), _Counting(np.zeros(entries, np.int64))
    state = np.zeros(scan.PLAN_SIZE, np.int64)
    kept = scan.plan.py_func(table, n, 10**6, True, pending, producers, opened, closed, state)
    assert kept == frames
    assert pending.count + producers.count + opened.count < 4 * entries + 40 * frames
