"""Recognises the format of sampled keys or values.

| format | every sampled payload |
| --- | --- |
| framed | begins with magic byte 0 or 1 and a schema's id or GUID, as from a schema registry's serializers |
| json, or another format with documents | is a document |
| uuid, long and others that a whole sample decides | is of this format, and all are text, or none is |
| string | is UTF-8 without control characters |
| bytes | anything else |

All but `framed` are formats of payloads, whose entries in `etl.decoding.formats.registry` say how they are recognised.
If at least nine in ten values are documents or framed payloads, the others become dead letters of the job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from kseg.etl.decoding.formats.documents import Members
from kseg.etl.decoding.formats.registry import FORMATS, in_samples
from kseg.segment_reader.payload.framing import SchemaKey, frames_of, looks_framed

FRAMED: Final = "framed"
_MOST_OTHERS: Final = 0.1


@dataclass(frozen=True, slots=True)
class Recognised:
    """The format of keys or values. format: a name of the table above; `none`: all are null.

    count: number of payloads that are not null. mixed: their numbers by kind, if they are of several kinds.
    others: number of payloads that are of another format and become dead letters. schemas: ids of framed payloads.
    documents: of the payloads, if the format has documents.
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

    set_aside: whether up to a tenth of them may be of another format than documents or framed payloads. given: the
    known format; if it has documents, any number of payloads may be of another one.
    """
    some = [payload for payload in payloads if payload is not None]
    nulls = len(payloads) - len(some)
    if not some:
        return Recognised("none", 0, nulls)
    of_kind: dict[str, list[bytes]] = {}
    documents: dict[str, list[Members]] = {}
    for payload in some:
        kind, document = _examined(payload)
        of_kind.setdefault(kind, []).append(payload)
        if document is not None:
            documents.setdefault(kind, []).append(document)
    kinds = Counter({kind: len(own) for kind, own in of_kind.items()})
    found = _counted(kinds)
    if given is not None:
        others = len(some) - kinds[given] if has_documents(given) else 0
        return Recognised(given, len(some), nulls, mixed=found, others=others, documents=documents.get(given, ()))
    if (whole := _of_whole_sample(some, kinds)) is not None:
        return Recognised(whole[0], len(some), nulls, whole[1])
    kind, count = kinds.most_common(1)[0]
    others = len(some) - count
    structured = kind == FRAMED or kind in documents
    if structured and (not others or (set_aside and others <= _MOST_OTHERS * len(some))):
        schemas = frames_of(pa.array(of_kind[kind], pa.binary())).schemas if kind == FRAMED else ()
        return Recognised(kind, len(some), nulls, "", found, others, schemas, documents.get(kind, ()))
    text = all(plain_format(kind) == "string" for kind in kinds)
    return Recognised("string" if text else "bytes", len(some), nulls, mixed=found)


def has_documents(format: str) -> bool:
    """Whether columns are inferred from payloads of this format."""
    return any(name == format and own.document is not None for name, own in in_samples())


def plain_format(format: str) -> str:
    """The format that takes payloads of a recognised format as one column."""
    if format == FRAMED:
        return "bytes"
    own = FORMATS[format].in_samples
    return own.plain if own is not None and own.document is not None else format


def words_of(format: str) -> str:
    """A description of payloads of a recognised format."""
    own = FORMATS[format].in_samples if format != FRAMED else None
    return "framed by a registry" if own is None else own.words


def _counted(kinds: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple((words_of(kind), count) for kind, count in kinds.most_common())[:4] if len(kinds) > 1 else ()


def _examined(payload: bytes) -> tuple[str, Members | None]:
    """The payload's kind (framed, a format with documents, string or bytes), and its document if it has one."""
    if looks_framed(payload):
        return FRAMED, None
    for name, own in in_samples():
        if own.document is not None and (document := own.document(payload)) is not None:
            return name, document
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return "bytes", None
    printable = all(letter.isprintable() or letter in "\t\r\n" for letter in text)
    return ("string" if printable else "bytes"), None


def _of_whole_sample(payloads: Sequence[bytes], kinds: Counter[str]) -> tuple[str, str] | None:
    """Format and note, if a format that one payload does not show is that of all payloads; else None."""
    text = set(kinds) == {"string"}
    if not text and not set(kinds) <= {"bytes", FRAMED}:
        return None
    framed = ", or a registry's frame and three bytes (format: framed)" if set(kinds) == {FRAMED} else ""
    for name, own in in_samples():
        if own.every is not None and (note := own.every(name, payloads, text)) is not None:
            return name, note + framed
    return None
