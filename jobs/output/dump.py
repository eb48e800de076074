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

from kseg.client.protocol.printable import printable
from kseg.segment_reader.log.files.dump import Entry

_ROWS_AT_ONCE: Final = 10_000
_BOOLEANS: Final = frozenset(("isTransactional", "isControl", "isValid"))
_TEXTS: Final = frozenset(("kind", "file", "control", "topic", "topicId", "compressType", "timestampType"))
_TIMES: Final = ("CreateTime", "LogAppendTime", "NoTimestampType")
#: Fields that `etl.internal_topics.decoding` adds to a record; in a table, their documents are JSON texts.
_MEANING: Final = ("recordType", "decodedKey", "decodedValue", "undecoded")
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def as_text(entry: Entry) -> str:
    """An entry as one line. As in Kafka's own tool, a record's line begins with a bar; a decoded key and payload are
    JSON."""
    bar = "| " if entry["kind"] == "record" else ""
    shown = _with_payload(entry) if entry.get("recordType") is not None else entry
    values = (
        f"{name}: {_shown(value)}"
        for name, value in shown.items()
        if name not in ("kind", "recordType", "decodedKey", "decodedValue") and value is not None
    )
    return printable(bar + " ".join(values))


def _with_payload(entry: Entry) -> Entry:
    """A decoded record with the names of Kafka's tool: `payload` is the value, or `<DELETE>` for a tombstone."""
    shown = {name: value for name, value in entry.items() if name not in ("key", "value")}
    if entry["decodedKey"] is not None:
        shown["key"] = entry["decodedKey"]
    if entry["undecoded"] is not None:
        return shown | {"payload": entry["value"]}
    return shown | {"payload": "<DELETE>" if entry["valueSize"] < 0 else entry["decodedValue"]}


def as_json(entry: Entry) -> str:
    """An entry as one line of JSON. A field of bytes that are not UTF-8 is null, and a field with the suffix `Base64`
    has the bytes.

    A decoded record has `decodedKey` and `decodedValue` instead of its bytes.
    """
    left_out = {name for name in _MEANING if entry.get(name) is None}
    if entry.get("recordType") is not None:
        left_out = {"undecoded"} if entry["undecoded"] is None else set()
        left_out |= {"key"} | ({"value"} if entry["undecoded"] is None else {"decodedValue"})
    return json.dumps(_plain({k: v for k, v in entry.items() if k not in left_out}), ensure_ascii=False)


def write_table(entries: Iterable[Entry], kind: str, path: Path, form: str) -> int:
    """Write the entries of one kind to an Arrow IPC file or a Parquet file; returns their number.

    The first entry's fields are the columns.
    """
    rows = (_row(entry) for entry in entries if entry["kind"] == kind)
    written = 0
    with ExitStack() as stack:
        sink = schema = None
        for batch in _chunks(rows):
            if sink is None:
                schema = pa.schema([(name, _type(name)) for name in batch[0]])
                make = pq.ParquetWriter if form == "parquet" else pa.ipc.new_file
                sink = stack.enter_context(make(str(path), schema))
            sink.write_table(pa.Table.from_pylist(batch, schema))
            written += len(batch)
    return written


def _chunks(rows: Iterator[Entry]) -> Iterator[list[Entry]]:
    while chunk := list(islice(rows, _ROWS_AT_ONCE)):
        yield chunk


def _row(entry: Entry) -> Entry:
    """An entry as a row of a table: the timestamp and its type as two columns, documents as JSON."""
    row: Entry = {}
    for name, value in entry.items():
        if name in _TIMES:
            row |= {"timestamp": value, "timestampType": name}
        elif name == "headers":
            row[name] = [{"key": key, "value": item} for key, item in value]
        elif isinstance(value, dict):
            row[name] = json.dumps(value, ensure_ascii=False)
        else:
            row[name] = value
    return row


def _type(name: str) -> pa.DataType:
    if name in _BOOLEANS:
        return pa.bool_()
    if name in _TEXTS or name in _MEANING:
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
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        return "[" + ",".join(f"{_shown(name.encode())}:{_shown(item)}" for name, item in value) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
