"""The small text files of a log directory.

leader-epoch-checkpoint             in a partition's folder    version 0, count, then lines: epoch, start offset
log-start-offset-checkpoint         in a folder of log.dirs    version 0, count, then lines: topic, partition, offset
replication-offset-checkpoint       likewise: high watermarks, written every few seconds
recovery-point-offset-checkpoint    likewise: what was flushed to disk
cleaner-offset-checkpoint           likewise: how far compaction has come
partition.metadata                  in a partition's folder    version: 0, topic_id: base64 of 16 bytes (KIP-516)
meta.properties                     in a folder of log.dirs    Java properties: version, cluster.id, node.id, …
quorum-state                        in the metadata log's      JSON: leaderId, leaderEpoch, votedId, … (KIP-595)
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from uuid import UUID

from kseg.segment_reader.log.errors import CorruptCheckpoint

LEADER_EPOCHS: Final = "leader-epoch-checkpoint"
LOG_START: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
QUORUM_STATE: Final = "quorum-state"


class EpochStart(NamedTuple):
    """A leader's epoch and the first offset that was written in it."""

    epoch: int
    start_offset: int


def leader_epochs(data: bytes, file: str) -> list[EpochStart]:
    """Reads a leader-epoch-checkpoint: epochs and offsets ascend. Raises CorruptCheckpoint."""
    epochs: list[EpochStart] = []
    for number, words in _lines(data, file):
        if len(words) != 2:
            raise _bad_line(file, number, "epoch and start offset")
        epoch = EpochStart(_number(words[0], file, number), _number(words[1], file, number))
        if epochs and (epoch.epoch <= epochs[-1].epoch or epoch.start_offset < epochs[-1].start_offset):
            raise _bad_line(file, number, "an epoch above the one before, starting no earlier")
        epochs.append(epoch)
    return epochs


def partition_offsets(data: bytes, file: str) -> dict[tuple[str, int], int]:
    """Reads an offset checkpoint of a folder of log.dirs: (topic, partition) to offset. Raises CorruptCheckpoint."""
    offsets = {}
    for number, words in _lines(data, file):
        if len(words) != 3:
            raise _bad_line(file, number, "topic, partition and offset")
        offsets[words[0], _number(words[1], file, number)] = _number(words[2], file, number)
    return offsets


def topic_id(data: bytes, file: str) -> UUID:
    """Reads partition.metadata. Raises CorruptCheckpoint."""
    values = dict(line.split(": ", 1) for line in _text(data, file).splitlines() if ": " in line)
    if values.get("version") != "0":
        raise CorruptCheckpoint(file, None, f"version {values.get('version')!r} is unknown")
    try:
        return UUID(bytes=base64.urlsafe_b64decode(values.get("topic_id", "") + "=="))
    except (ValueError, binascii.Error):
        raise CorruptCheckpoint(file, None, f"topic_id {values.get('topic_id')!r} is not an id") from None


def meta_properties(data: bytes, file: str) -> dict[str, str]:
    """Reads meta.properties: `cluster.id`, `node.id` (`broker.id` before KRaft), … Raises CorruptCheckpoint."""
    lines = (line.strip() for line in _text(data, file).splitlines())
    pairs = (re.split(r"\s*[=:]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    # Java writes these with a backslash before ":" and "=" in values.
    return {pair[0]: pair[1].replace("\\", "") for pair in pairs if len(pair) == 2}


def quorum_state(data: bytes, file: str) -> dict[str, Any]:
    """Reads quorum-state: `leaderId`, `leaderEpoch`, `votedId` …, as in the file. Raises CorruptCheckpoint."""
    try:
        found = json.loads(_text(data, file))
    except ValueError as error:
        raise CorruptCheckpoint(file, None, f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise CorruptCheckpoint(file, None, "it is not a JSON object")
    return found


def _lines(data: bytes, file: str) -> Iterator[tuple[int, list[str]]]:
    """The lines below version and count, numbered from 1 in the file, as words. A broker makes these files empty."""
    lines = _text(data, file).splitlines()
    if not lines:
        return
    if lines[0].strip() != "0":
        raise CorruptCheckpoint(file, None, f"line 1 has to be the version, 0, not {lines[0]!r}")
    count = _number(lines[1], file, 2) if len(lines) > 1 else 0
    found = [line.split() for line in lines[2:] if line.strip()]
    if len(found) != count:
        raise CorruptCheckpoint(file, None, f"line 2 announces {count} entries, there are {len(found)}")
    yield from enumerate(found, start=3)


def _text(data: bytes, file: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise CorruptCheckpoint(file, error.start, "the bytes are not text") from None


def _number(text: str, file: str, line: int) -> int:
    if not re.fullmatch(r"-?[0-9]{1,19}", text.strip()):
        raise _bad_line(file, line, "whole numbers")
    return int(text)


def _bad_line(file: str, line: int, expected: str) -> CorruptCheckpoint:
    return CorruptCheckpoint(file, None, f"line {line} has to be {expected}")
