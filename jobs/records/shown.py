"""Records as people and programs read them: a line of text, or an object of JSON.

What is not printable never reaches a terminal as it is: control characters are escaped, and bytes that are no UTF-8 are
shown as `\\xff`. In JSON they are `keyBase64`, `valueBase64` and `headersBase64`, which
`kseg produce --format json` reads.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from kseg.client.protocol.printable import printable
from kseg.jobs.records.typed import Decoded, Typed
from kseg.segment_reader.payload.framing import GUID_FRAME, ID_FRAME, frames_of, looks_framed

_MOST: Final = 2000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NONE: Final = "<null>"  # `null` is a text, or a document of JSON
NOTHING_DECODED: Final[Decoded] = MappingProxyType({})


def as_line(row: dict[str, Any], *, whole: bool, decoded: Decoded = NOTHING_DECODED) -> str:
    """One record on one line: address, time, headers, key, value. whole: without a limit to keys and values.

    row: of the columns of Kafka's records, as `peeking.peek` has them. decoded: what is shown as JSON in place of
    bytes; an error before them.
    """
    time = _time(row["timestamp"])
    shown_time = "-" if time is None else time if isinstance(time, str) else f"{time} ms"
    parts = [f"{row['topic']}-{row['partition']}", f"{row['offset']:>8}", shown_time]
    if row.get("headers"):
        parts.append("{" + ", ".join(f"{printable(h['key'])}={payload_text(h['value'])}" for h in row["headers"]) + "}")
    for name in ("key", "value"):
        text = _part(row[name], decoded.get(name))
        parts.append(text if whole or len(text) <= _MOST else f"{text[:_MOST]}… ({len(row[name] or b''):,} bytes)")
    return "  ".join(parts)


def as_object(row: dict[str, Any], decoded: Decoded = NOTHING_DECODED) -> dict[str, Any]:
    """The same for JSON. What was decoded is beside the payload: `valueDecoded`, or `valueError`."""
    shown: dict[str, Any] = {name: row[name] for name in ("topic", "partition", "offset")}
    shown["timestamp"] = _time(row["timestamp"])
    shown |= _headers_members(row.get("headers") or [])
    for name in ("key", "value"):
        payload: bytes | None = row[name]
        text = _text_or_none(payload)
        if payload is not None and text is None:
            shown[f"{name}Base64"] = _base64_or_none(payload)
        else:
            shown[name] = text
        if (schema := schema_of(payload)) is not None:
            shown[f"{name}Schema"] = schema
        if (typed := decoded.get(name)) is not None:
            shown |= _typed_members(name, typed)
    return shown


def _time(millis: int | None) -> str | int | None:
    """ISO 8601; the number where no calendar has it."""
    if millis is None:
        return None
    try:
        time = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return millis
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _headers_members(headers: list[dict[str, Any]]) -> dict[str, Any]:
    """Pairs of name and value; all values in base64 if one of them is no text, so that they keep their order."""
    texts = [[header["key"], _text_or_none(header["value"])] for header in headers]
    if all(text is not None or header["value"] is None for (_, text), header in zip(texts, headers, strict=True)):
        return {"headers": texts}
    return {"headersBase64": [[header["key"], _base64_or_none(header["value"])] for header in headers]}


def _typed_members(name: str, typed: Typed) -> dict[str, Any]:
    if typed.error is None:
        return {f"{name}Decoded": typed.value}
    error = typed.error
    return {f"{name}Error": {"class": error.status.name, "path": error.path, "message": error.message}}


def _part(payload: bytes | None, typed: Typed | None) -> str:
    if typed is None or payload is None:
        return payload_text(payload)
    if typed.error is not None:
        return f"<{printable(typed.error_text())}> {payload_text(payload)}"
    return printable(to_json(typed.value))


def to_json(shown: Any) -> str:
    """One line."""
    return json.dumps(shown, ensure_ascii=False)


def payload_text(payload: bytes | None) -> str:
    """A payload as printable text: `<null>` for none, a registry's frame by the id of its schema."""
    if payload is None:
        return _NONE
    schema = schema_of(payload)
    if schema is not None:
        size = ID_FRAME if isinstance(schema, int) else GUID_FRAME
        return f"<schema {schema}> {_safe_bytes(payload[size:])}"
    return _safe_bytes(payload)


def schema_of(payload: bytes | None) -> int | str | None:
    """The schema that a registry's frame names; None where there is no frame, or the payload is a number's 8 bytes."""
    if payload is None or len(payload) == 8 or not looks_framed(payload):
        return None
    return frames_of(pa.array([payload], pa.binary())).schemas[0]


def _safe_bytes(payload: bytes) -> str:
    return printable(payload.decode("utf-8", "backslashreplace"))


def _base64_or_none(payload: bytes | None) -> str | None:
    return None if payload is None else base64.b64encode(payload).decode()


def _text_or_none(payload: bytes | None) -> str | None:
    try:
        return None if payload is None else payload.decode()
    except UnicodeDecodeError:
        return None
