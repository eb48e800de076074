"""Is a partition's log whole? Every checksum, the chain of offsets, and whether the other files agree with it.

    .log          headers, checksums, offsets that ascend, none beyond the next segment's first; with `deep` each record
    .index        each entry names a batch                    .timeindex   each entry is the largest time up to there
    .txnindex     each entry ends at that producer's ABORT marker, and each such marker has its entry
    .snapshot     checksum; producers' last offsets and open transactions are those that the log leads to
    leader-epoch-checkpoint   no batch of an epoch is before the epoch's start, or behind that of a later one

What is found does not end the check. What is damaged in a .log is what a reader past damage finds (`segment_scanner`),
so that `kseg recover` quarantines what `kseg fsck --deep` reports. A batch that is cut off at a log's end is a note, no
fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from kseg.segment_reader.decode.batch import ABORT_MARKER, CONTROL_BIT, TRANSACTIONAL_BIT
from kseg.segment_reader.decode.salvage import BadBatch, RefusedRecord, SalvagingDecoder
from kseg.segment_reader.decode.table import ATTRIBUTES, BASE, COUNT, LAST, LEADER, MAGIC, MARKER, POSITION, PRODUCER
from kseg.segment_reader.log.damage.compaction_gaps import CompactionGaps
from kseg.segment_reader.log.damage.damage import Damage
from kseg.segment_reader.log.damage.segment_scanner import SegmentScanner
from kseg.segment_reader.log.errors import CorruptIndex, CorruptSnapshot, LogDamaged, LogFileError, SegmentGone
from kseg.segment_reader.log.files.dump import Findings, dump
from kseg.segment_reader.log.files.indexes import aborted_transactions
from kseg.segment_reader.log.files.preallocation import open_segment
from kseg.segment_reader.log.files.producer_snapshots import ProducerState, producer_snapshot
from kseg.segment_reader.log.files.segments import PartitionLog, Segment, open_log
from kseg.segment_reader.log.files.storage import Storage
from kseg.segment_reader.log.scan.bounds import OpenTransaction
from kseg.segment_reader.log.scan.headers import Piece, Table
from kseg.segment_reader.log.scan.record_sets import RecordSet


@dataclass
class PartitionCheck:
    """The contents of a partition's log, and its faults. Offsets are -1 where there is no segment."""

    topic: str
    partition: int
    folder: str
    segments: int = 0
    bytes: int = 0
    batches: int = 0
    records: int = 0
    log_start_offset: int = -1
    log_end_offset: int = -1
    open_transactions: list[OpenTransaction] = field(default_factory=list)
    faults: list[LogFileError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


#: (producer id, offset) of ABORT markers, and whether the log still holds what they ended.
Markers = dict[tuple[int, int], bool]


@dataclass
class _Producers:
    """The state of producers at a place in the log, as far as the log shows.

    `gaps`: offsets are missing before that place. Compaction took them, and may have taken a producer's last records or
    a transaction's first ones, which a snapshot still has.
    """

    last_offset: dict[int, int] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    gaps: bool = False

    def interrupted(self, damage: Damage) -> None:
        """The damaged bytes may have been of any producer."""
        self.gaps = True
        if damage.hides_marker:
            self.open.clear()


def check_partition(storage: Storage, folder: str, topic: str, partition: int, *, deep: bool = False) -> PartitionCheck:
    """Check one partition's folder. Raises SegmentGone where it is not there."""
    log = open_log(storage, folder, topic, partition)
    report = PartitionCheck(topic, partition, folder, len(log.segments), log.size, notes=list(log.notes))
    if not log.segments:
        return report
    report.log_start_offset = edge = log.segments[0].base_offset
    producers, has_gaps = _Producers(), CompactionGaps(storage, log)
    for number, segment in enumerate(log.segments):
        _check_snapshot(storage, log, segment, producers, report)
        following = log.segments[number + 1] if number + 1 < len(log.segments) else None
        edge = _check_segment(storage, log, segment, following, edge, producers, report, has_gaps, deep=deep)
    report.log_end_offset = edge
    report.open_transactions = sorted(
        (OpenTransaction(producer, first) for producer, first in producers.open.items()),
        key=lambda one: one.first_offset,
    )
    return report


def _check_segment(
    storage: Storage,
    log: PartitionLog,
    segment: Segment,
    following: Segment | None,
    edge: int,
    producers: _Producers,
    report: PartitionCheck,
    has_gaps: CompactionGaps,
    *,
    deep: bool,
) -> int:
    """Check one .log and its indexes; gives the offset after its last whole batch."""
    markers: Markers = {}
    passed, edge = edge, max(edge, segment.base_offset)
    high = following.base_offset if following is not None else None
    with closing(open_segment(storage, segment)) as file:
        scanner = SegmentScanner(file, segment.base_offset, high, has_gaps=has_gaps)
        for item in scanner:
            if isinstance(item, Damage):
                report.faults.append(_fault(item))
                producers.interrupted(item)
                edge = passed = item.last
                continue
            piece = Piece(item.table, item.data, item.position, item.position + len(item.data))
            producers.gaps = producers.gaps or _has_gaps(piece, passed)
            passed = item.next_offset
            _check_piece(file.path, log, piece, producers, markers, report)
            if deep:
                _check_records(log, RecordSet(item.data, [], item.next_offset, file.path, item.position), edge, report)
            edge = item.next_offset
        if scanner.torn is not None:
            report.notes.append(str(scanner.torn))
    findings = Findings()
    for kind in ("index", "timeindex"):
        if kind in segment.others:
            for _ in dump(storage, segment.others[kind], findings):
                pass
    report.faults += findings.faults
    _check_txnindex(storage, segment, markers, report)
    return edge


def _fault(damage: Damage) -> LogDamaged:
    return LogDamaged(
        damage.file, damage.position, damage.reason, length=damage.length, first=damage.first, last=damage.last
    )


def _check_piece(
    path: str,
    log: PartitionLog,
    piece: Piece,
    producers: _Producers,
    markers: Markers,
    report: PartitionCheck,
) -> None:
    table = piece.table
    report.batches += len(table)
    report.records += int(table[:, COUNT].sum())
    _check_epochs(path, log, table, report)
    for row in np.flatnonzero((table[:, MAGIC] == 2) & (table[:, PRODUCER] >= 0)).tolist():
        producer, base = int(table[row, PRODUCER]), int(table[row, BASE])
        if not table[row, ATTRIBUTES] & CONTROL_BIT:
            producers.last_offset[producer] = int(table[row, LAST])
            if table[row, ATTRIBUTES] & TRANSACTIONAL_BIT:
                producers.open.setdefault(producer, base)
        elif table[row, MARKER] >= 0:
            known = producers.open.pop(producer, None) is not None
            if table[row, MARKER] == ABORT_MARKER:
                markers[producer, base] = known


def _has_gaps(piece: Piece, edge: int) -> bool:
    """Whether offsets are missing from `edge` on. What a wrapper of magic 0 and 1 covers is known only inside of it."""
    table = piece.table[piece.table[:, MAGIC] == 2]
    inside = table[:, COUNT] < table[:, LAST] - table[:, BASE] + 1
    between = table[1:, BASE] > table[:-1, LAST] + 1
    return bool(inside.any() or between.any() or (len(table) and table[0, BASE] > edge))


def _check_epochs(path: str, log: PartitionLog, table: Table, report: PartitionCheck) -> None:
    """Epochs of batches. The first entry's start says nothing: it moves up with the log's start (DeleteRecords), and
    batches below that start are there until their segment goes."""
    for number, (epoch, start) in enumerate(log.leader_epochs):
        of_now = table[:, MAGIC] == 2
        wrong = of_now & (table[:, LEADER] < epoch) & (table[:, BASE] >= start)
        if number:
            wrong |= of_now & (table[:, LEADER] == epoch) & (table[:, BASE] < start)
        if wrong.any():
            row = table[np.flatnonzero(wrong)[0]]
            reason = f"a batch of leader epoch {row[LEADER]} at offset {row[BASE]}; epoch {epoch} begins at {start}"
            report.faults.append(LogDamaged(path, int(row[POSITION]), reason))


def _check_records(log: PartitionLog, run: RecordSet, start: int, report: PartitionCheck) -> None:
    """Decode the records of batches whose headers are plausible."""
    decoder = SalvagingDecoder(
        log.topic, log.partition, start, run.next_offset, isolation_level="read_uncommitted", check_crcs=False
    )
    for found in decoder.feed(run.records):
        if isinstance(found, BadBatch):
            position = run.position + found.position
            report.faults.append(_fault(Damage(run.file, position, found.size, found.first, found.last, found.reason)))
        elif isinstance(found, RefusedRecord):
            size, offset = len(found.content), found.offset
            position = run.position + found.position
            report.faults.append(_fault(Damage(run.file, position, size, offset, offset + 1, found.reason)))


def _check_txnindex(storage: Storage, segment: Segment, markers: Markers, report: PartitionCheck) -> None:
    path = segment.others.get("txnindex")
    try:
        entries = list(aborted_transactions(storage.read_all(path), path)) if path else []
    except CorruptIndex as fault:
        report.faults.append(fault)
        return
    indexed = {(entry.producer_id, entry.last_offset) for entry in entries}
    for producer, offset in sorted(indexed - markers.keys()):
        reason = f"producer {producer}'s aborted transaction ends at {offset}, where it has no ABORT marker"
        report.faults.append(CorruptIndex(path or "", None, reason))
    for producer, offset in sorted(place for place, known in markers.items() if known and place not in indexed):
        reason = f"the transaction of producer {producer}, aborted at {offset}, is not in its .txnindex"
        report.faults.append(CorruptIndex(path or segment.path, None, reason))


def _check_snapshot(
    storage: Storage, log: PartitionLog, segment: Segment, producers: _Producers, report: PartitionCheck
) -> None:
    """The snapshot that was taken when this segment began, against what the log has led to so far."""
    for offset, path in log.snapshots:
        if offset != segment.base_offset:
            continue
        try:
            states = producer_snapshot(storage.read_all(path), path)
        except SegmentGone:
            continue
        except CorruptSnapshot as fault:
            report.faults.append(fault)
            continue
        for state in states:
            report.faults += _check_producer(path, state, producers)


def _check_producer(path: str, state: ProducerState, producers: _Producers) -> Iterator[CorruptSnapshot]:
    known = producers.last_offset.get(state.producer_id)
    if known is None:
        return
    last, opened = state.last_offset, producers.open.get(state.producer_id, -1)
    if last >= 0 and (known > last if producers.gaps else known != last):
        yield CorruptSnapshot(path, None, f"producer {state.producer_id} had written up to {known}, not {last}")
    first = state.current_txn_first_offset
    if 0 <= opened < max(first, 0) or (opened >= 0) > (first >= 0) or (opened != first and not producers.gaps):
        reason = f"producer {state.producer_id}'s open transaction begins at {opened}, not {first}"
        yield CorruptSnapshot(path, None, reason)
