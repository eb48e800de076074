"""Reads each kind of file as plain entries: one mapping a batch, record, index entry, producer …

What is wrong does not end the dump: it is collected in `Findings`, to be reported at the end, and the dump goes on
where it can. Names of entries' fields are those that Kafka's own dump tool prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import PurePosixPath
from struct import Struct
from typing import Any, Final

from kseg.segment_reader.decode.batch import Frame
from kseg.segment_reader.decode.table import LAST, MAX_TIME, POSITION
from kseg.segment_reader.log.errors import LogDamaged, LogFileError, SegmentGone, StoreError
from kseg.segment_reader.log.files import checkpoints
from kseg.segment_reader.log.files.contents import Batch, LogRecord, batches, records
from kseg.segment_reader.log.files.indexes import aborted_transactions, offset_index, time_index
from kseg.segment_reader.log.files.names import segment_file, snapshot_file
from kseg.segment_reader.log.files.producer_snapshots import producer_snapshot
from kseg.segment_reader.log.files.storage import OpenFile, Storage
from kseg.segment_reader.log.scan.headers import pieces

Entry = dict[str, Any]

_TIME_NAMES: Final = ("CreateTime", "LogAppendTime", "NoTimestampType")
_MARKER_VALUE: Final = Struct(">hi")  # version, coordinator epoch

_OFFSET_CHECKPOINTS: Final = frozenset(
    (checkpoints.LOG_START, checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS, checkpoints.CLEANER_OFFSETS)
)


@dataclass
class Findings:
    """The faults, in the order in which they were found."""

    faults: list[LogFileError] = field(default_factory=list)

    def add(self, fault: LogFileError) -> None:
        self.faults.append(fault)


def dump(storage: Storage, path: str, findings: Findings, *, deep: bool = False) -> Iterator[Entry]:
    """The entries of one file; of a .log or .checkpoint its batches, with `deep` each followed by its records.

    An index is compared with the .log beside it, if there is one. Raises SegmentGone, and ValueError for a file of
    another kind.
    """
    name = PurePosixPath(path).name
    found = segment_file(name)
    try:
        if is_log(path):
            yield from _log(storage, path, findings, deep=deep)
        elif found is not None and found.kind == "index":
            yield from _offset_index(storage, path, found.base_offset, findings)
        elif found is not None and found.kind == "timeindex":
            yield from _time_index(storage, path, found.base_offset, findings)
        elif found is not None and found.kind == "txnindex":
            for aborted in aborted_transactions(storage.read_all(path), path):
                yield {"kind": "aborted transaction", **_camel(aborted._asdict())}
        elif found is not None:
            for state in producer_snapshot(storage.read_all(path), path):
                yield {"kind": "producer", **_camel(state._asdict())}
        else:
            yield from _small_file(storage, path, name)
    except (SegmentGone, StoreError):
        raise
    except LogFileError as fault:
        findings.add(fault)


def batch_entry(batch: Batch) -> Entry:
    """A batch as an entry; magic 0 and 1 lack most fields."""
    frame = batch.frame
    entry: Entry = {"kind": "batch", "baseOffset": frame.base_offset, "lastOffset": frame.last_offset}
    if frame.magic == 2:
        entry |= {
            "count": frame.record_count,
            "baseSequence": frame.base_sequence,
            "lastSequence": _last_sequence(frame),
            "producerId": frame.producer_id,
            "producerEpoch": frame.producer_epoch,
            "partitionLeaderEpoch": frame.leader_epoch,
            "isTransactional": frame.transactional,
            "isControl": frame.control,
            "deleteHorizonMs": batch.delete_horizon_ms,
        }
    return entry | {
        "position": batch.position,
        _TIME_NAMES[-1 if frame.magic == 0 else int(frame.log_append_time)]: frame.max_timestamp,
        "size": frame.size,
        "magic": frame.magic,
        "compressType": batch.codec,
        "crc": frame.crc,
        "isValid": batch.valid,
    }


def record_entry(record: LogRecord) -> Entry:
    """A record as an entry; key, value and header values are bytes."""
    return {
        "kind": "record",
        "offset": record.offset,
        _TIME_NAMES[record.timestamp_type]: record.timestamp,
        "keySize": -1 if record.key is None else len(record.key),
        "valueSize": -1 if record.value is None else len(record.value),
        "isValid": record.valid,
        "crc": record.crc,
        "sequence": record.sequence,
        "headers": [[name, value] for name, value in record.headers],
        "control": record.control,
        "coordinatorEpoch": _coordinator_epoch(record),
        "key": record.key,
        "value": record.value,
    }


def is_log(path: str) -> bool:
    """Whether a file holds batches, by its name: a .log, or a snapshot of the metadata log."""
    name = PurePosixPath(path).name
    found = segment_file(name)
    return found.kind == "log" if found is not None else snapshot_file(name) is not None


def _last_sequence(frame: Frame) -> int:
    """Sequences go on from 0 behind the largest one."""
    if frame.base_sequence < 0:
        return -1
    return (frame.base_sequence + frame.last_offset - frame.base_offset) & 0x7FFFFFFF


def _coordinator_epoch(record: LogRecord) -> int | None:
    """The epoch in a transaction's marker of the coordinator that wrote it (KIP-98); None for other records."""
    if record.control not in ("ABORT", "COMMIT") or record.value is None or len(record.value) < _MARKER_VALUE.size:
        return None
    return int(_MARKER_VALUE.unpack_from(record.value)[1])


def _log(storage: Storage, path: str, findings: Findings, *, deep: bool) -> Iterator[Entry]:
    edge = -1
    with closing(storage.open(path)) as file:
        for batch in batches(file):
            yield batch_entry(batch)
            if not batch.valid:
                findings.add(LogDamaged(path, batch.position, "the checksum does not match the bytes"))
            if batch.frame.base_offset < edge:
                reason = f"offset {batch.frame.base_offset} is below the one before, {edge - 1}"
                findings.add(LogDamaged(path, batch.position, reason))
            edge = batch.frame.next_offset
            if deep and batch.valid:
                try:
                    yield from map(record_entry, records(batch, path))
                except LogDamaged as fault:
                    findings.add(fault)


def _offset_index(storage: Storage, path: str, base_offset: int, findings: Findings) -> Iterator[Entry]:
    index = offset_index(storage.read_all(path), base_offset, path)
    entries = list(zip(index.offsets.tolist(), index.positions.tolist(), strict=True))
    for offset, position in entries:
        yield {"kind": "index entry", "offset": offset, "position": position}
    log = _beside(storage, path)
    if log is None:
        return
    with closing(log) as file:
        for (offset, position), following in pairwise([*entries, (0, file.size)]):
            # Brokers before 4.0 index a set of batches that came in one request by its first position and last offset.
            last = _last_offsets(file, position, following[1])
            if offset not in last:
                reason = f"entry (offset {offset}, position {position}) names no batch of {log.path}"
                findings.add(LogFileError(path, None, reason))


def _last_offsets(file: OpenFile, position: int, end: int) -> set[int]:
    """The last offsets of the batches that begin in a part of a .log; empty where none begins at its first byte."""
    found: set[int] = set()
    try:
        for piece in pieces(file, position):
            rows = piece.table[piece.table[:, POSITION] < end]
            found.update(rows[:, LAST].tolist())
            if len(rows) < len(piece.table):
                break
    except LogDamaged:
        pass
    return found


def _time_index(storage: Storage, path: str, base_offset: int, findings: Findings) -> Iterator[Entry]:
    index = time_index(storage.read_all(path), base_offset, path)
    entries = list(zip(index.timestamps.tolist(), index.offsets.tolist(), strict=True))
    for timestamp, offset in entries:
        yield {"kind": "time index entry", "timestamp": timestamp, "offset": offset}
    log = _beside(storage, path)
    if log is None:
        return
    with closing(log) as file:
        rows = iter(_times(file))
        last, newest = -1, -1
        for timestamp, offset in entries:
            while last < offset and (row := next(rows, None)) is not None:
                last, newest = row[0], max(newest, row[1])
            if newest != timestamp:
                reason = f"the largest timestamp up to offset {offset} is {newest} in {log.path}, not {timestamp}"
                findings.add(LogFileError(path, None, reason))


def _times(file: OpenFile) -> Iterator[tuple[int, int]]:
    """(last offset, largest timestamp) of each batch."""
    for piece in pieces(file):
        yield from zip(piece.table[:, LAST].tolist(), piece.table[:, MAX_TIME].tolist(), strict=True)


def _beside(storage: Storage, path: str) -> OpenFile | None:
    try:
        return storage.open(path.removesuffix(PurePosixPath(path).suffix) + ".log")
    except SegmentGone:
        return None


def _small_file(storage: Storage, path: str, name: str) -> Iterator[Entry]:
    data = storage.read_all(path)
    if name == checkpoints.LEADER_EPOCHS:
        for epoch in checkpoints.leader_epochs(data, path):
            yield {"kind": "leader epoch", **_camel(epoch._asdict())}
    elif name in _OFFSET_CHECKPOINTS:
        for (topic, partition), offset in checkpoints.partition_offsets(data, path).items():
            yield {"kind": "checkpoint", "topic": topic, "partition": partition, "offset": offset}
    elif name == checkpoints.PARTITION_METADATA:
        yield {"kind": "partition metadata", "topicId": str(checkpoints.topic_id(data, path))}
    elif name == checkpoints.META_PROPERTIES:
        yield {"kind": "properties", **checkpoints.meta_properties(data, path)}
    elif name == checkpoints.QUORUM_STATE:
        yield {"kind": "quorum state", **checkpoints.quorum_state(data, path)}
    else:
        raise ValueError(f"{path} is not a file of a log directory that kseg supports")


def _camel(values: Mapping[str, Any]) -> Entry:
    return {_camel_name(name): value for name, value in values.items()}


def _camel_name(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(part.capitalize() for part in rest)
