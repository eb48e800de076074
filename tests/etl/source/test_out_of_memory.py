"""Memory that ends while a range is read: a typed error with its address, and never a batch that passes for damaged.

Each case is a process of its own whose address space is limited, so that allocations fail as they do under
`spark.executor.pyspark.memory` or `ulimit -v`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.errors import OutOfMemoryError
from kseg.etl.source.origin import LogFiles
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.etl.tasks.error_json import error_of_document
from kseg.etl.transform.arrow import ArrowStep
from kseg.segment_reader.decode.engine import Limits
from kseg.segment_reader.encode.batches import Record, encode_batch
from little_memory import with_little_memory

BIG = 24 << 20
SPARE = 12 << 20
TOPIC = "orders"
LIMITS = Limits(max_batch_bytes=1 << 20)


def a_log(folder: Path, log_files: Any, compression: str) -> Path:
    """Two small records in a batch each, one of 24 MB, and a small one; returns `log.dirs`."""
    values = [b"a", b"b", bytes(BIG), b"d"]
    batches = [
        encode_batch([Record(b"k", value, timestamp=1)], base_offset=offset, compression=compression)
        for offset, value in enumerate(values)
    ]
    log_files.write_partition(folder / f"{TOPIC}-0", [batches])
    return folder


def read(log_dir: Path, end: int, on_corruption: Any) -> Callable[[], None]:
    task = RangeTask(TOPIC, 0, 0, end, folder=str(log_dir / f"{TOPIC}-0"))
    origin = LogFiles((str(log_dir),), past_damage=on_corruption == "quarantine")

    def work() -> None:
        for _ in RangeReader(task, origin, DecodeOptions(on_corruption=on_corruption)):
            pass

    return work


@pytest.mark.parametrize(
    ("compression", "on_corruption"),
    [("none", "fail"), *((name, "quarantine") for name in ("none", "gzip", "snappy", "lz4", "zstd"))],
)
def test_a_large_record_without_memory_for_it(
    tmp_path: Path, log_files: Any, compression: str, on_corruption: str
) -> None:
    """A batch for which there is no memory is sound: it does not go to the quarantine."""
    log_dir = a_log(tmp_path, log_files, compression)
    small, large = read(log_dir, 2, on_corruption), read(log_dir, 4, on_corruption)
    document = with_little_memory(large, SPARE, before=small)
    assert document is not None
    error = error_of_document(document)
    assert isinstance(error, OutOfMemoryError)
    assert (error.address["topic"], error.address["partition"]) == (TOPIC, 0)
    assert error.address["offset"] in (0, 2)  # small batches may be handed on before it, or with it
    assert error.address["file"] == str(log_dir / f"{TOPIC}-0" / f"{0:020d}.log")
    assert not error.retriable
    assert error.remedy is not None
    for words in ("fails again", "spark.executor.pyspark.memory", "source.max_batch_bytes"):
        assert words in error.remedy


def test_what_the_remedy_says_passes_over_a_batch(tmp_path: Path, log_files: Any) -> None:
    """With a lower limit the batch is damage whatever memory there is, and all others are read."""
    log_dir = a_log(tmp_path, log_files, "zstd")
    task = RangeTask(TOPIC, 0, 0, 4, folder=str(log_dir / f"{TOPIC}-0"))
    options = DecodeOptions(on_corruption="quarantine", limits=LIMITS)
    reader = RangeReader(task, LogFiles((str(log_dir),), past_damage=True), options)
    assert pa.Table.from_batches(reader).column("offset").to_pylist() == [0, 1, 3]
    assert reader.result.unreadable == 1


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.num_rows:
        b"".join([bytes(BIG), bytes(BIG)])
    return batch


def test_a_step_without_memory() -> None:
    """The record is not the reason: it does not become a dead letter."""
    address = {"topic": TOPIC, "partition": 0, "offset": 7}

    def step_on(values: list[bytes]) -> Callable[[], object]:
        step = ArrowStep(double, place="transform[0].arrow")
        return lambda: step.apply(pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())}), address)

    document = with_little_memory(step_on([b"a"]), SPARE, before=step_on([]))
    assert document is not None
    error = error_of_document(document)
    assert isinstance(error, OutOfMemoryError)
    assert error.address.items() >= {**address, "step": "transform[0].arrow"}.items()
    assert error.remedy is not None
    assert "source.max_batch_bytes" not in error.remedy
