"""Decodes records of Kafka's own topics into typed keys and values: entries of `segment_reader.log.files.dump`, joined
with `client`'s decoders.

An entry of a record gets four more fields. The first three are None where the file's topic is not an internal one.

    recordType     "OffsetCommit", "Topic", … or a control record's "COMMIT", "SNAPSHOT_HEADER", …
    decodedKey     a document (client.protocol.record_json), None for a null key
    decodedValue   likewise; None for a null value, which deletes
    undecoded      why a part of it could not be decoded: newer than this release knows

The value's bytes are left out (null) where something in them is a secret that is not to be shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Final

from kseg.client.protocol.embedded.internal_topics import CLUSTER_METADATA, TOPICS
from kseg.client.protocol.errors import DecodeError
from kseg.client.protocol.record_json import DecodedRecord, decode_control_to_json, decode_to_json
from kseg.segment_reader.log.errors import LogDamaged
from kseg.segment_reader.log.files.dump import Entry, Findings, is_log
from kseg.segment_reader.log.files.names import partition_folder, snapshot_file

NOTHING: Final = DecodedRecord(None, None, None)


def internal_topic_of(path: str) -> str | None:
    """The internal topic whose records a .log or .checkpoint holds, by the names of its folder and itself."""
    place = PurePosixPath(path)
    if not is_log(path):
        return None
    if snapshot_file(place.name) is not None:
        return CLUSTER_METADATA
    folder = partition_folder(place.parent.name)
    return folder.topic if folder is not None and folder.topic in TOPICS else None


def with_meaning(
    entries: Iterator[Entry], path: str, topic: str | None, findings: Findings, *, secrets: bool = False
) -> Iterator[Entry]:
    """The entries of one file, those of records with the fields above. What is damaged is added to `findings`."""
    position = -1
    for entry in entries:
        if entry["kind"] == "batch":
            position = entry["position"]
        if entry["kind"] != "record":
            yield entry
            continue
        decoded = NOTHING
        try:
            if entry["control"] is not None:
                decoded = decode_control_to_json(entry["key"], entry["value"])
            elif topic is not None:
                decoded = decode_to_json(topic, entry["key"], entry["value"], secrets=secrets)
        except DecodeError as fault:
            findings.add(LogDamaged(path, position, f"record at offset {entry['offset']}: {fault}"))
            decoded = DecodedRecord(None, None, None, "it is damaged")
        if decoded.hidden:
            entry = entry | {"value": None}
        yield entry | {
            "recordType": decoded.type,
            "decodedKey": decoded.key,
            "decodedValue": decoded.value,
            "undecoded": decoded.unknown,
        }
