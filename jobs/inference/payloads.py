"""Recognises the format of sampled keys or values.

| format | every sampled payload |
| --- | --- |
| framed | begins with magic byte 0 or 1 and a schema's id or GUID, as from a schema registry's serializers |
| json | is a JSON object |
| uuid | is the text of a UUID |
| string | is UTF-8 without control characters |
| long, double, int, float, short | has 8, 4 or 2 bytes, all the same number, and is not text |
| bytes | anything else |

Kafka's serializers of numbers write no marker: 8 bytes are a double if all payloads are plausible doubles and not all
are whole numbers below 2^48, otherwise a long (4 bytes likewise: float or int).

If at least nine in ten values are JSON objects or framed payloads, the others become dead letters of the job.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from kseg.jobs.inference.json_seen import Members, NotJson, parsed
from kseg.segment_reader.payload.framing import SchemaKey, frames_of, looks_framed

_UUID: Final = re.compile(rb"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MOST_OTHERS: Final = 0.1
_WORDS: Final = {"json": "JSON objects", "string": "UTF-8 text", "bytes": "bytes", "framed": "framed by a registry"}


@dataclass(frozen=True, slots=True)
class Recognised:
    """The format of keys or values. format: a name of the table above; `none`: all are null.

    count: number of payloads that are not null. mixed: their numbers by kind, if they are of several kinds.
    others: number of payloads that are of another format and become dead letters. schemas: ids of framed payloads.
    documents: of JSON.
    """

    format: str
    count: int
    nulls: int
    note: str = ""
    mixed: tuple[tuple[str, int], ...] = ()
    others: int = 0
    schemas: tuple[SchemaKey, ...] = ()
    documents: Sequence[Members] = field(default=(), compare=False, repr=False)


def recognise(payloads: Sequence[bytes | None], *, set_aside: bool = False, given: str | None = None) -> Recognised:
    """The format of all payloads. If there is no common format, it is string if all are text, else bytes.

    set_aside: whether up to a tenth of them may be of another format than JSON objects or framed payloads. given: the
    known format; with `json`, any number of payloads may be of another one.
    """
    some = [payload for payload in payloads if payload is not None]
    nulls = len(payloads) - len(some)
    if not some:
        return Recognised("none", 0, nulls)
    of_kind: dict[str, list[bytes]] = {}
    documents: list[Members] = []
    for payload in some:
        kind, document = _examined(payload)
        of_kind.setdefault(kind, []).append(payload)
        if document is not None:
            documents.append(document)
    kinds = Counter({kind: len(own) for kind, own in of_kind.items()})
    if given is not None:
        others = len(some) - kinds["json"] if given == "json" else 0
        return Recognised(given, len(some), nulls, mixed=_counted(kinds), others=others, documents=documents)
    if len(kinds) == 1 and (kind := next(iter(kinds))) in ("json", "string"):
        if kind == "string" and all(_UUID.fullmatch(payload) for payload in some):
            kind = "uuid"
        return Recognised(kind, len(some), nulls, documents=documents)
    fixed = _fixed_width(some)
    if fixed is not None and not kinds["string"] + kinds["json"]:
        framed = ", or a registry's frame and three bytes (format: framed)" if kinds["framed"] == len(some) else ""
        return Recognised(fixed[0], len(some), nulls, fixed[1] + framed)
    found = _counted(kinds)
    kind, count = kinds.most_common(1)[0]
    others = len(some) - count
    if kind in ("json", "framed") and (not others or (set_aside and others <= _MOST_OTHERS * len(some))):
        schemas = frames_of(pa.array(of_kind[kind], pa.binary())).schemas if kind == "framed" else ()
        return Recognised(kind, len(some), nulls, mixed=found, others=others, schemas=schemas, documents=documents)
    return Recognised("string" if set(kinds) <= {"json", "string"} else "bytes", len(some), nulls, mixed=found)


def _counted(kinds: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple((_WORDS[kind], count) for kind, count in kinds.most_common())[:4] if len(kinds) > 1 else ()


def _examined(payload: bytes) -> tuple[str, Members | None]:
    """The payload's kind (json, string, framed or bytes), and the document if it is JSON."""
    if looks_framed(payload):
        return "framed", None
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return "bytes", None
    if text.lstrip()[:1] == "{":
        try:
            if isinstance(document := parsed(payload), Members):
                return "json", document
        except NotJson:
            pass
    printable = all(letter.isprintable() or letter in "\t\r\n" for letter in text)
    return ("string" if printable else "bytes"), None


def _fixed_width(payloads: Sequence[bytes]) -> tuple[str, str] | None:
    """Format and note, if all payloads have the width of a number of Kafka's serializers; else None."""
    widths = {len(payload) for payload in payloads}
    if len(widths) != 1:
        return None
    (width,) = widths
    if width == 2:
        return "short", "2 bytes each"
    if width == 4:
        floats = [struct.unpack(">f", payload)[0] for payload in payloads]
        small = all(abs(int.from_bytes(payload, signed=True)) < 2**24 for payload in payloads)
        whole = small or not all(1e-6 < abs(number) < 1e12 or number == 0 for number in floats)
        return ("int" if whole else "float"), "4 bytes each; int and float cannot be distinguished reliably"
    if width == 8:
        doubles = [struct.unpack(">d", payload)[0] for payload in payloads]
        small = all(abs(int.from_bytes(payload, signed=True)) < 2**48 for payload in payloads)
        whole = small or not all(1e-9 < abs(number) < 1e18 or number == 0 for number in doubles)
        return ("long" if whole else "double"), "8 bytes each; long and double cannot be distinguished reliably"
    return None
