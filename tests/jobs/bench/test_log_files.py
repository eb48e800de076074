"""The benchmark of log files reads what a broker wrote, all of it, in every way. No figure is judged here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.etl.telemetry.progress import NULL_PROGRESS
from kseg.jobs.bench import shapes
from kseg.jobs.bench.contenders import WrongCount
from kseg.jobs.bench.log_files import LogFilesEffort, measure
from kseg.jobs.bench.readers import Alone, ReadTime, files, timed
from kseg.jobs.bench.shapes import LogShape, write
from kseg.segment_reader.codecs.registry import BY_NAME, CODECS
from kseg.segment_reader.decode.batch import frames
from skips import full_scale_only

SHAPES = [LogShape("none", 20, 16 * 1024), LogShape("gzip", 200, 16 * 1024), LogShape("lz4", 4096, 1_000_000)]


def test_every_codec_size_and_batch_is_measured() -> None:
    assert len(set(shapes.ALL)) == len(CODECS) * 3 * 2
    assert len({shape.name for shape in shapes.ALL}) == len(shapes.ALL)


def test_samples_hold_what_their_shape_says(kafka: Any) -> None:
    size = 100_000
    samples = write(kafka.bootstrap_servers, kafka.log_dirs[0], SHAPES, size, NULL_PROGRESS, topic="bench-shapes")
    for sample in samples:
        data = b"".join(file.read_bytes() for file in sample.files)
        found = list(frames(data))
        shape = sample.shape
        assert {frame.codec for frame in found} == {BY_NAME[shape.codec].number}
        assert {frame.record_count for frame in found} == {shape.records_per_batch}
        assert sum(frame.record_count for frame in found) == sample.rows
        assert sample.row_bytes >= size
        assert sample.file_bytes == len(data)
        timed(files(sample), sample.rows)
        alone = Alone(sample)
        assert alone.in_memory() == alone.read() == sample.rows


@full_scale_only
def test_all_ways_read_every_row_in_every_round(kafka: Any, tmp_path: Path) -> None:
    effort = LogFilesEffort(SHAPES[:2], 50_000, rounds=2, java_rounds=1)
    found = measure(kafka.bootstrap_servers, kafka.log_dirs[0], tmp_path, effort, NULL_PROGRESS)
    ways = ["files", "alone", "read_alone", "broker", "java", "java_null"]
    assert [(rate["files"], rate["way"]) for rate in found["rates"]] == [
        (shape.name, way) for shape in SHAPES[:2] for way in ways
    ]
    assert all(rate["least"] <= rate["million_rows_per_second"] <= rate["most"] for rate in found["rates"])
    for ratio in found["ratios"]:
        assert all(value > 0 for name, value in ratio.items() if name != "files")


def test_a_way_that_leaves_rows_out_is_a_failure() -> None:
    assert isinstance(timed(lambda: 5, 5), ReadTime)
    with pytest.raises(WrongCount, match="4 rows were read of 5"):
        timed(lambda: 4, 5)
