"""Entries of `kseg dump` as text, as JSON lines, and as Arrow or Parquet files."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from segment_reader.log.dump import Entry

_ROWS_AT_ONCE: Final = 10_000
_BOOLEANS: Final = frozenset(("isTransactional", "isControl", "isValid"))
_TEXTS: Final = frozenset(("kind", "file", "control", "topic", "topicId", "compressType"))
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def as_text(entry: Entry) -> str:
    """One line; a record's begins with a bar, as in Kafka's own tool."""
    bar = "| " if entry["kind"] == "record" else ""
    values = (f"{name}: {_shown(value)}" for name, value in entry.items() if name != "kind" and value is not None)
    return bar + " ".join(values)


def as_json(entry: Entry) -> str:
    """One line. Bytes that are no UTF-8 stand in a field with `Base64` behind its name, and theirs is null."""
    return json.dumps(_plain(entry), ensure_ascii=False)


def write_table(entries: Iterable[Entry], kind: str, path: Path, form: str) -> int:
    """Writes the entries of one kind to an Arrow IPC file or a Parquet file; returns how many there were."""
    rows = (entry for entry in entries if entry["kind"] == kind)
    written = 0
    with ExitStack() as stack:
        sink = None
        for batch in _chunks(rows):
            table = _table(batch)
            if sink is None:
                make = pq.ParquetWriter if form == "parquet" else pa.ipc.new_file
                sink = stack.enter_context(make(str(path), table.schema))
            sink.write_table(table)
            written += len(batch)
    return written


def _chunks(rows: Iterator[Entry]) -> Iterator[list[Entry]]:
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):
        yield chunk


def _table(rows: list[Entry]) -> pa.Table:
    schema = pa.schema([(name, _type(name)) for name in _columns(rows[0])])
    for row in rows:
        for name in ("CreateTime", "LogAppendTime", "NoTimestampType"):
            if name in row:
                row["timestamp"] = row[name]
                row["timestampType"] = name
        if "headers" in row:
            row["headers"] = [{"key": key, "value": value} for key, value in row["headers"]]
    return pa.Table.from_pylist(rows, schema)


def _columns(row: Mapping[str, Any]) -> Iterator[str]:
    for name in row:
        if name in ("CreateTime", "LogAppendTime", "NoTimestampType"):
            yield from ("timestamp", "timestampType")
        else:
            yield name


def _type(name: str) -> pa.DataType:
    if name in _BOOLEANS:
        return pa.bool_()
    if name in _TEXTS or name == "timestampType":
        return pa.string()
    if name in ("key", "value"):
        return pa.binary()
    return _HEADERS if name == "headers" else pa.int64()


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        plain: dict[str, Any] = {}
        for name, item in value.items():
            plain[name] = _plain(item)
            if isinstance(item, bytes) and plain[name] is None:
                plain[f"{name}Base64"] = base64.b64encode(item).decode()
        return plain
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, bytes):
        return _decoded(value)
    return value


def _decoded(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _shown(value: Any) -> str:
    if isinstance(value, bytes):
        text = _decoded(value)
        return text if text is not None and text.isprintable() else f"0x{value.hex()}"
    if isinstance(value, list):
        return "[" + ",".join(f"{name}:{_shown(item)}" for name, item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
