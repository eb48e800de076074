"""What a worker reads for `format("kseg")`, batch or stream: rows, and an account of what is not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from kseg.etl.errors import Refused
from kseg.etl.source.errors import OffsetsAbsent
from kseg.etl.source.tasks import RangeTask
from kseg.etl.spark_format.options import ReadOptions
from kseg.etl.spark_format.partition import KsegPartition, read_partition
from kseg.segment_reader.encode.batches import Record, encode_batch

TOPIC = "orders"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Offsets 3 to 5 are missing inside of a batch, and 10 to 19 between two."""
    rows = [Record(b"k", b"v", timestamp=1)] * 10
    folder = tmp_path / f"{TOPIC}-0"
    folder.mkdir()
    log = encode_batch(rows[:7], offset_deltas=[0, 1, 2, 6, 7, 8, 9], last_offset_delta=9)
    (folder / f"{0:020}.log").write_bytes(log + encode_batch(rows, base_offset=20))
    return folder


def read(folder: Path, start: int = 0, end: int = 30, **options: str) -> int:
    parsed = ReadOptions.parse({"subscribe": TOPIC, "path": str(folder.parent), **options})
    task = RangeTask(TOPIC, 0, start, end, folder=str(folder))
    return sum(batch.num_rows for batch in read_partition(KsegPartition((task,)), parsed))


def test_absent_offsets_of_a_topic_that_is_not_compacted_fail(folder: Path) -> None:
    with pytest.raises(OffsetsAbsent) as caught:
        read(folder)
    error: Refused = caught.value
    assert (error.code, error.address) == ("offsets-absent", {"topic": TOPIC, "partition": 0, "offset": 3})
    with pytest.raises(OffsetsAbsent, match="offsets 10 to 19 are absent"):
        read(folder, 6)
    assert read(folder, 20) == 10


def test_without_fail_on_data_loss_they_are_passed_over(folder: Path) -> None:
    assert read(folder, failOnDataLoss="false") == 17


def test_compaction_explains_them(folder: Path) -> None:
    (folder.parent / "cleaner-offset-checkpoint").write_text(f"0\n1\n{TOPIC} 0 20\n")
    assert read(folder) == 17
