"""The newest records, whatever lies between them and the log's end."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pyarrow as pa

from kseg.client import TopicPartition
from kseg.etl.source.files.logs import FileLogs
from kseg.etl.source.origin import LogFiles
from kseg.jobs.records import reading
from kseg.jobs.records.reading import newest
from kseg.segment_reader.encode.batches import Record, encode_batch


def test_no_more_rows_are_held_than_are_wanted(tmp_path: Path, log_files: Any, monkeypatch: Any) -> None:
    """Behind many records, a log's end has few: markers, aborted and compacted records. The look further back met all
    of the many at the same time."""
    dense = [encode_batch([Record(None, b"v")] * 100, base_offset=offset) for offset in range(0, 20_000, 100)]
    sparse = [
        encode_batch([Record(None, b"v")], base_offset=offset, last_offset_delta=999)
        for offset in range(20_000, 29_000, 1000)
    ]
    log_files.write_partition(tmp_path / "t-0", [[*dense, *sparse]])
    alive: list[weakref.ref[pa.RecordBatch]] = []
    most = 0

    def watched(*arguments: Any) -> Any:
        nonlocal most
        for batch in records(*arguments):
            alive.append(weakref.ref(batch))
            most = max(most, sum(one().num_rows for one in alive if one() is not None))
            yield batch
            del batch

    records = reading.records
    monkeypatch.setattr(reading, "records", watched)
    tp, logs = TopicPartition("t", 0), FileLogs(LogFiles((str(tmp_path),)))
    found = [offset for batch in newest(logs, tp, None, 0, 29_000, 12) for offset in batch["offset"].to_pylist()]
    assert found == [19_997, 19_998, 19_999, *range(20_000, 29_000, 1000)]
    assert most <= 3000
