"""Delta logs made by hand, in memory: commits, and checkpoints of every form."""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kseg.etl.delta_log.folder import LogFile, LogFolder

UUID = "80a083e8-7026-4e79-81be-64bd76c43a11"
SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "n", "type": "long", "nullable": True, "metadata": {}}]})

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    {
        "storageType": pa.string(),
        "pathOrInlineDv": pa.string(),
        "offset": pa.int32(),
        "sizeInBytes": pa.int32(),
        "cardinality": pa.int64(),
    }
)
COLUMNS: Mapping[str, pa.DataType] = {
    "txn": pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()}),
    "add": pa.struct(
        {
            "path": pa.string(),
            "partitionValues": _TEXTS,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats": pa.string(),
            "deletionVector": _VECTOR,
            "future": pa.string(),
            "stats_parsed": pa.struct({"numRecords": pa.int64(), "minValues": pa.struct({"n": pa.int64()})}),
        }
    ),
    "remove": pa.struct(
        {"path": pa.string(), "deletionTimestamp": pa.int64(), "dataChange": pa.bool_(), "deletionVector": _VECTOR}
    ),
    "metaData": pa.struct(
        {
            "id": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": _TEXTS}),
            "schemaString": pa.string(),
            "partitionColumns": pa.list_(pa.string()),
            "configuration": _TEXTS,
            "createdTime": pa.int64(),
        }
    ),
    "protocol": pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": pa.list_(pa.string()),
            "writerFeatures": pa.list_(pa.string()),
        }
    ),
    "domainMetadata": pa.struct({"domain": pa.string(), "configuration": pa.string(), "removed": pa.bool_()}),
    "checkpointMetadata": pa.struct({"version": pa.int64(), "tags": _TEXTS}),
    "sidecar": pa.struct(
        {"path": pa.string(), "sizeInBytes": pa.int64(), "modificationTime": pa.int64(), "tags": _TEXTS}
    ),
}


def protocol(*features: str, reader: Sequence[str] = (), **more: Any) -> dict[str, Any]:
    """features: of the writer; none: protocol 1, 2."""
    if not features and not reader:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2, **more}}
    body = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": [*features, *reader]}
    return {"protocol": {**body, **({"minReaderVersion": 3, "readerFeatures": list(reader)} if reader else {}), **more}}


def metadata(*, properties: Mapping[str, str] | None = None, **more: Any) -> dict[str, Any]:
    body = {
        "id": "table-1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": dict(properties or {}),
    }
    return {"metaData": {**body, **more}}


def add(path: str, rows: int | None = 1, *, vector: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"path": path, "partitionValues": {}, "size": 100, "modificationTime": 5, "dataChange": True}
    if rows is not None:
        body["stats"] = json.dumps({"numRecords": rows}, separators=(",", ":"))
    if vector is not None:
        body["deletionVector"] = dict(vector)
    return {"add": {**body, **more}}


def remove(path: str, *, vector: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body: dict[str, Any] = {"path": path, "deletionTimestamp": 7, "dataChange": True}
    return {"remove": {**body, **({} if vector is None else {"deletionVector": dict(vector)}), **more}}


def vector(name: str, cardinality: int, offset: int | None = 1) -> dict[str, Any]:
    body = {"storageType": "u", "pathOrInlineDv": name, "sizeInBytes": 40, "cardinality": cardinality}
    return body if offset is None else {**body, "offset": offset}


def txn(app_id: str, version: int, **more: Any) -> dict[str, Any]:
    return {"txn": {"appId": app_id, "version": version, **more}}


def lines(actions: Iterable[Mapping[str, Any]]) -> bytes:
    """A JSON file of the log."""
    return "".join(json.dumps(action) + "\n" for action in actions).encode()


def parquet(actions: Sequence[Mapping[str, Any]], columns: Iterable[str] = COLUMNS, **options: Any) -> bytes:
    """A Parquet file of the log: a checkpoint, a part of one, or a sidecar. options: of `pq.write_table`."""
    arrays = {}
    for name in columns:
        kind = COLUMNS[name]
        arrays[name] = pa.array([_pairs(action.get(name), kind) for action in actions], kind)
    out = io.BytesIO()
    pq.write_table(pa.table(arrays), out, **options)
    return out.getvalue()


def _pairs(value: Any, kind: pa.DataType) -> Any:
    """A value as pyarrow takes it: maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return list(value.items())
    if pa.types.is_struct(kind):
        return {field.name: _pairs(value.get(field.name), field.type) for field in kind}
    return value


def entry(version: int) -> str:
    return f"{version:020d}.json"


def checkpoint(version: int, end: str = "parquet") -> str:
    return f"{version:020d}.checkpoint.{end}"


class MemoryLog(LogFolder):
    """A log in memory. files: contents by name. requests: how many there were of each kind."""

    def __init__(self, table: str = "memory") -> None:
        super().__init__(table)
        self.files: dict[str, bytes] = {}
        self.requests: Counter[str] = Counter()

    def list_from(self, version: int = 0) -> list[LogFile]:
        self.requests["list"] += 1
        return super().list_from(version)

    def read(self, name: str, first: int = 0, length: int | None = None) -> bytes:
        self.requests["get"] += 1
        return super().read(name, first, length)

    def write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def commit(self, version: int, *actions: Mapping[str, Any]) -> None:
        self.write(entry(version), lines(actions))

    def _list(self, first: str) -> list[LogFile]:
        return [LogFile(name, len(content)) for name, content in self.files.items()]

    def _read(self, name: str, first: int, length: int | None) -> bytes:
        try:
            return self.files[name][first:][:length]
        except KeyError:
            raise FileNotFoundError(name) from None
