"""The account against defects: decoders that lose records, each of which agrees with itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.run.account import ReadCounts, account_for, failed, offsets_mismatch
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.logs import open_logs
from kseg.etl.source.origin import LogFiles, Origin
from kseg.etl.source.range_result import RangeResult
from kseg.etl.source.reader import RangeReader, decoder_of
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.batch import frames
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch

TOPIC, END = "orders", 40
ROWS = [Record(b"k", b"v%d" % n, timestamp=1) for n in range(10)]
#: The third batch lacks an offset, and another is missing behind it: what compaction leaves.
DELTAS = [0, 1, 2, 3, 5, 6, 7, 8]
LOG = [
    encode_batch(ROWS),
    encode_batch(ROWS, base_offset=10, compression="lz4"),
    encode_batch(ROWS[:8], base_offset=20, offset_deltas=DELTAS, last_offset_delta=8),
    encode_batch(ROWS, base_offset=30),
]


class Defective(RangeDecoder):
    """Decodes what `seen` makes of a record set, and so counts and gaps agree with the rows that it gives."""

    def seen(self, batches: list[bytes]) -> list[bytes]:
        raise NotImplementedError

    def feed(self, records: Any, aborted: Sequence[tuple[int, int]] = (), **place: Any) -> Iterator[pa.RecordBatch]:
        view = memoryview(records)
        batches = [bytes(view[frame.position : frame.position + frame.size]) for frame in frames(view)]
        return super().feed(b"".join(self.seen(batches)), aborted, **place)


class SkipsABatch(Defective):
    def seen(self, batches: list[bytes]) -> list[bytes]:
        return [*batches[:1], *batches[2:]]


class DropsRecords(Defective):
    def seen(self, batches: list[bytes]) -> list[bytes]:
        fewer = encode_batch(ROWS[:8], base_offset=10, offset_deltas=[0, 1, 2, 4, 5, 6, 8, 9], last_offset_delta=9)
        return [batches[0], fewer, *batches[2:]]


class DropsTheFirstBatchAndTheLast(Defective):
    def seen(self, batches: list[bytes]) -> list[bytes]:
        return [*batches[1:-1], encode_batch(ROWS, base_offset=END)]


class HandsOnLess(RangeDecoder):
    def finish(self) -> Iterator[pa.RecordBatch]:
        return (batch.slice(1) for batch in super().finish())


@pytest.fixture
def files(tmp_path: Path) -> LogFiles:
    folder = tmp_path / f"{TOPIC}-0"
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(b"".join(LOG))
    return LogFiles((str(tmp_path),))


def read(files: LogFiles, decoder: type[RangeDecoder], bounds: Sequence[int] = (0, END)) -> list[RangeResult]:
    def make(task: RangeTask, origin: Origin, options: DecodeOptions) -> RangeDecoder:
        return decoder(task.topic, task.partition, task.start, task.end, isolation_level="read_committed")

    folder = f"{files.log_dirs[0]}/{TOPIC}-0"
    results = []
    for index, (start, end) in enumerate(pairwise(bounds)):
        task = RangeTask(TOPIC, 0, start, end, index, folder=folder)
        reader = RangeReader(task, files, DecodeOptions(), make_decoder=make)
        assert sum(batch.num_rows for batch in reader) <= reader.result.data
        results.append(reader.result)
    return results


def mismatch(files: LogFiles, results: list[RangeResult], on_gap: str = "record") -> str | None:
    plan = ev.RunPlan(
        "r", "incremental", "incremental", "a", 1, "", "", None, {}, (ev.PlannedRange(TOPIC, 0, 0, END),), {}
    )
    with open_logs(files) as logs:
        return offsets_mismatch(account_for(plan, results, logs), on_gap)


@pytest.mark.parametrize("bounds", [(0, END), (0, 5, 23, 27, 33, END), tuple(range(END + 1))])
def test_a_sound_decoder_agrees_with_the_headers_wherever_a_range_is_cut(
    files: LogFiles, bounds: tuple[int, ...]
) -> None:
    results = read(files, RangeDecoder, bounds)
    assert (sum(result.data for result in results), sum(result.absent for result in results)) == (38, 2)
    assert mismatch(files, results) is None
    assert "offsets are absent" in str(mismatch(files, results, on_gap="fail"))


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        (SkipsABatch, "10 offsets were not decoded, and are not absent"),
        (DropsRecords, "2 offsets were not decoded, and are not absent"),
        (DropsTheFirstBatchAndTheLast, "20 offsets were not decoded, and are not absent"),
        (HandsOnLess, "the decoder counted 38 records, and gave 37 rows"),
    ],
)
def test_a_decoder_that_loses_records_fails_the_first_equation(
    files: LogFiles, decoder: type[RangeDecoder], message: str
) -> None:
    results = read(files, decoder)
    (found,) = results
    assert found.mismatch is not None
    assert f"{TOPIC}-0 [0, {END}): {message}" in str(mismatch(files, results))


def test_a_task_that_is_counted_twice_fails_the_first_equation(files: LogFiles) -> None:
    results = read(files, RangeDecoder, (0, 20, END))
    assert mismatch(files, results) is None
    assert mismatch(files, [*results, results[0]]) == f"{TOPIC}-0 [0, 20) was read by two tasks"
    # As many offsets as the range has, and not the range's.
    assert mismatch(files, [results[1], results[1]]) == f"{TOPIC}-0 [0, 20) was read by no task"
    assert mismatch(files, results[:1]) == f"{TOPIC}-0 [20, 40) was read by no task"


def test_the_decoder_of_a_task_is_the_plain_one(files: LogFiles) -> None:
    assert type(decoder_of(RangeTask(TOPIC, 0, 0, 1), files, DecodeOptions())) is RangeDecoder


@pytest.mark.parametrize(("lost", "code"), [(0, "offsets-absent"), (3, "account-failed")])
def test_only_offsets_that_no_compaction_explains_can_be_recorded_as_gaps(lost: int, code: str) -> None:
    """The word was searched in the text, which names the topic. `on_gap: record` does not help if records are lost."""
    planned = ev.PlannedRange("compaction", 0, 0, 10, table="t")
    plan = ev.RunPlan("r", "incremental", ev.INCREMENTAL, "a", 1, "", "{}", None, {}, (planned,), {})
    account = ev.RangeAccount("compaction", 0, 0, 10, ev.RangeCounts(data=8 - lost, absent=2))
    gaps = (OffsetRange("compaction", 0, 8, 10),)
    reading = ReadCounts((account,), gaps, (), rows_in=8 - lost)
    reason = offsets_mismatch(reading, "fail")
    assert reason is not None
    assert failed(plan, reading.failed("r", "offsets", reason, None, final=False)).code == code
