"""One range's Fetch answers, from a broker that is a script: which of them say that offsets are absent."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import pytest

from kseg.client.errors import OffsetOutOfRange, ProtocolFault
from kseg.client.fetch.limit import FetchLimit
from kseg.client.fetch.messages import FetchedRecords
from kseg.etl.errors import ExitCode
from kseg.etl.source.brokers.prefetch import fetch_chunks_from
from kseg.etl.source.errors import NoProgress, OffsetsLost
from kseg.etl.source.range_result import LostRange
from kseg.etl.source.record_chunk import FetchOptions, FetchStats, RecordChunk
from kseg.etl.source.tasks import RangeTask
from kseg.segment_reader.decode.range_decoder import RangeDecoder
from kseg.segment_reader.encode.batches import Record, encode_batch

END = 100


def batch(base: int, count: int) -> bytes:
    return encode_batch([Record(b"k", b"v", timestamp=1)] * count, base_offset=base)


@dataclass
class ScriptedReader:
    """Answers in turn, the last one for ever; `uncommitted` is what read_uncommitted shows."""

    answers: list[bytes | OffsetOutOfRange]
    uncommitted: bytes = b""
    visible: int = END
    asked: list[int] = field(default_factory=list)
    asked_uncommitted: list[int] = field(default_factory=list)
    leader: ScriptedReader | None = None  # answers from when the replica was left on
    limit: FetchLimit = field(default_factory=lambda: FetchLimit(1 << 20, 1 << 20))

    def request(self, offset: int) -> None:
        self.asked.append(offset)

    def request_whole(self, fetched: FetchedRecords) -> None:
        self.limit.raised_to_whole(fetched.records, fetched.fetch_offset, "1")
        self.request(fetched.fetch_offset)

    def leave_replica(self) -> None:
        if self.leader is not None:
            self.answers, self.visible, self.leader = self.leader.answers, self.leader.visible, None

    def response(self) -> FetchedRecords:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, OffsetOutOfRange):
            raise answer
        return self._fetched(answer, self.asked[-1])

    def uncommitted_from(self, offset: int) -> FetchedRecords:
        self.asked_uncommitted.append(offset)
        return self._fetched(self.uncommitted, offset)

    def _fetched(self, records: bytes, offset: int) -> FetchedRecords:
        return FetchedRecords(memoryview(records), [], self.visible, self.visible, 0, offset, 0, 1)


def read(
    reader: ScriptedReader, *, patience: float = 60, work: float = 0, **options: str
) -> tuple[RangeDecoder, list[RecordChunk], FetchStats]:
    """The range decoded, its chunks and what fetching told. work: seconds that each chunk takes."""
    stats, chunks = FetchStats(), []
    decoder = RangeDecoder("t", 0, 0, END, isolation_level="read_committed")
    wanted = FetchOptions(**options)  # type: ignore[arg-type]
    for chunk in fetch_chunks_from(reader, RangeTask("t", 0, 0, END), wanted, stats, patience=patience):
        time.sleep(work)
        if not chunk.records:
            decoder.skip_to(chunk.next_offset)
        for _ in decoder.feed(chunk.records, chunk.aborted):
            pass
        chunks.append(chunk)
    return decoder, chunks, stats


def test_an_expired_remote_fetch_is_asked_again() -> None:
    """Empty, without an error, with the full high watermark: however often, it says nothing."""
    decoder, _, stats = read(ScriptedReader([*[b""] * 7, batch(0, END)]))
    assert (decoder.counts.data, decoder.counts.absent) == (END, 0)
    assert stats.lost == []


def test_empty_answers_without_end_may_succeed_later() -> None:
    reader = ScriptedReader([batch(0, 10), b""])
    with pytest.raises(NoProgress) as caught:
        read(reader, patience=0.3)
    assert caught.value.exit_code is ExitCode.RETRIABLE
    assert caught.value.address == {"topic": "t", "partition": 0, "offset": 10}
    assert set(reader.asked_uncommitted) == {10}


@pytest.mark.parametrize("before", [batch(0, 10), OffsetOutOfRange("gone", offset=0, log_start=10, high_watermark=END)])
def test_the_time_that_a_chunk_takes_its_reader_is_no_time_without_records(before: bytes | OffsetOutOfRange) -> None:
    reader = ScriptedReader([before, b"", batch(10, END - 10)])
    _, chunks, _ = read(reader, patience=0.3, work=0.5, on_data_loss="record")
    assert [chunk.next_offset for chunk in chunks] == [10, END]


def test_a_later_batch_of_an_open_transaction_proves_the_gap() -> None:
    reader = ScriptedReader([batch(0, 10), b""], uncommitted=batch(END + 7, 3))
    decoder, chunks, _ = read(reader)
    assert (decoder.counts.data, decoder.gaps) == (10, [(10, END)])
    assert chunks[-1].next_offset == END
    assert reader.asked_uncommitted == [10]


def test_a_later_batch_before_the_end_leaves_the_gap_open() -> None:
    """The broker can send what it did not: it is asked again."""
    reader = ScriptedReader([b"", b"", b"", batch(60, 40)], uncommitted=batch(60, 40))
    decoder, _, _ = read(reader)
    assert (decoder.counts.data, decoder.gaps) == (40, [(0, 60)])


def test_under_read_uncommitted_an_answer_is_its_own_proof() -> None:
    reader = ScriptedReader([b"", b"", b"", batch(END, 1)])
    decoder, _, _ = read(reader, isolation_level="read_uncommitted")
    assert decoder.gaps == [(0, END)]
    assert reader.asked_uncommitted == []


def test_a_log_that_is_not_replicated_so_far_is_waited_for() -> None:
    reader = ScriptedReader([b""], uncommitted=batch(END, 1), visible=50)
    with pytest.raises(NoProgress):
        read(reader, patience=0.1)
    assert reader.asked_uncommitted == []


def test_a_replica_that_stays_behind_the_range_is_left_for_the_leader() -> None:
    leader = ScriptedReader([batch(10, END - 10)])
    reader = ScriptedReader([batch(0, 10), b""], visible=10, leader=leader)
    decoder, _, stats = read(reader, patience=0.5)
    assert (decoder.counts.data, decoder.counts.absent) == (END, 0)
    assert reader.asked == [0, 10, 10, 10]  # the replica may catch up within one long poll
    assert stats.fetches == 4


@pytest.mark.parametrize(
    ("log_start", "high_watermark", "lost"),
    [(40, END, LostRange(10, 40, "retention")), (0, 10, LostRange(10, END, "truncation"))],
)
def test_what_the_broker_says_is_outside_of_the_log_is_lost(
    log_start: int, high_watermark: int, lost: LostRange
) -> None:
    def answers() -> list[bytes | OffsetOutOfRange]:
        gone = OffsetOutOfRange("gone", offset=10, log_start=log_start, high_watermark=high_watermark)
        return [batch(0, 10), gone, batch(log_start, END - log_start)]

    with pytest.raises(OffsetsLost):
        read(ScriptedReader(answers()))
    decoder, _, stats = read(ScriptedReader(answers()), on_data_loss="record")
    assert stats.lost == [lost]
    assert decoder.gaps == [(lost.first, lost.last)]


def test_half_a_batch_is_no_empty_answer() -> None:
    whole = batch(0, END)
    reader = ScriptedReader([whole[:-1], whole], limit=FetchLimit(len(whole) - 1, 1 << 20))
    decoder, _, _ = read(reader)
    assert decoder.counts.data == END
    assert reader.limit.bytes == len(whole)
    with pytest.raises(ProtocolFault, match="offset 0 has"):
        read(ScriptedReader([whole[:-1]]))
