"""Lines of a text file as records: one a line.

    lines   the line is the value; with a separator, what is before its first occurrence is the key
    json    an object: value, and if wanted key, headers, partition, timestamp. What `kseg peek --json` prints.

In an object a text is its UTF-8 bytes, null is null, and any other JSON value its text as it is written, so that no
number is rounded. `keyBase64` and `valueBase64` hold bytes that are no text. headers: an object, or a list of pairs,
for names that occur twice; `headersBase64`: the same with all values in base64, or null. timestamp: milliseconds since
1970, or ISO 8601 with a zone, from 1970 on. What else `kseg peek --json` prints is ignored; other members are errors,
and so is an object without a value: a tombstone is `"value": null`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, Literal

from kseg.etl.config.times import epoch_millis, parse_instant
from kseg.segment_reader.payload.json.document import JsonToken, Value, parse
from kseg.segment_reader.payload.plain import BadPayload

LineFormat = Literal["lines", "json"]
_DEEPEST: Final = 500
_LARGEST_PARTITION: Final = 2**31 - 1
_MEMBERS: Final = ("key", "value", "keyBase64", "valueBase64", "headers", "headersBase64", "partition", "timestamp")
#: What `kseg peek --json` prints beside them.
_SHOWN: Final = (
    "topic",
    "offset",
    *(f"{name}{of}" for name in ("key", "value") for of in ("Schema", "Decoded", "Error")),
)


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to send. partition, timestamp (ms): None for the producer's choice."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    partition: int | None = None
    timestamp: int | None = None


class BadLine(ValueError):
    """A line that is no record. number: from 1."""

    def __init__(self, number: int, reason: str) -> None:
        super().__init__(f"line {number}: {reason}")
        self.number, self.reason = number, reason


def records_of(lines: Iterable[bytes], form: LineFormat, separator: bytes | None = None) -> Iterator[NewRecord]:
    """A record for each line; blank lines of JSON are none. Raises BadLine."""
    for number, line in enumerate(lines, 1):
        text = line.removesuffix(b"\n").removesuffix(b"\r")
        if form == "json":
            if text.strip():
                yield _of_json(text, number)
        elif separator is None:
            yield NewRecord(None, text)
        else:
            key, found, value = text.partition(separator)
            if not found:
                raise BadLine(number, f"has no separator {separator.decode()!r} between key and value")
            yield NewRecord(key, value)


def _of_json(line: bytes, number: int) -> NewRecord:
    try:
        document = parse(line, 0, _DEEPEST)
    except BadPayload as error:
        raise BadLine(number, f"is not JSON: {error.message}") from None
    if document.token is not JsonToken.OBJECT:
        raise BadLine(number, "is no object with key, value, headers, partition or timestamp")
    members: dict[str, Value] = {}
    for member in document.members:
        if member.name in members:
            raise BadLine(number, f"has the member {member.name!r} twice")
        if member.name not in _MEMBERS and member.name not in _SHOWN:
            near = get_close_matches(member.name, _MEMBERS, 1)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(_MEMBERS)}"
            raise BadLine(number, f"has the unknown member {member.name!r}; {hint}")
        members[member.name] = member.value
    if "value" not in members and "valueBase64" not in members:
        raise BadLine(number, 'has neither value nor valueBase64; a tombstone is "value": null')
    given = LineMembers(line, number, members)
    return NewRecord(
        given.payload("key"), given.payload("value"), given.headers(), given.partition(), given.timestamp()
    )


@dataclass(frozen=True, slots=True)
class LineMembers:
    """The members of one line's object. Each method raises BadLine."""

    line: bytes
    number: int
    members: dict[str, Value]

    def payload(self, name: str) -> bytes | None:
        encoded = self.members.get(f"{name}Base64")
        found = self.members.get(name)
        if encoded is None or encoded.token is JsonToken.NULL:
            return None if found is None else self._bytes(found)
        if found is not None and found.token is not JsonToken.NULL:
            raise BadLine(self.number, f"has both {name} and {name}Base64")
        return self._decoded(encoded, f"{name}Base64")

    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        plain, encoded = self._pairs("headers"), self._pairs("headersBase64")
        if encoded is None:
            return tuple((name, self._bytes(value)) for name, value in plain or ())
        if plain is not None:
            raise BadLine(self.number, "has both headers and headersBase64")
        return tuple(
            (name, None if value.token is JsonToken.NULL else self._decoded(value, "headersBase64"))
            for name, value in encoded
        )

    def _pairs(self, name: str) -> list[tuple[str, Value]] | None:
        found = self.members.get(name)
        if found is None or found.token is JsonToken.NULL:
            return None
        if found.token is JsonToken.OBJECT:
            return [(member.name, member.value) for member in found.members]
        pairs = [(entry.elements if entry.token is JsonToken.ARRAY else []) for entry in found.elements]
        if found.token is not JsonToken.ARRAY or any(len(p) != 2 or p[0].token is not JsonToken.STRING for p in pairs):
            raise BadLine(self.number, f"{name} is neither an object nor a list of [name, value]")
        return [(header.text, value) for header, value in pairs]

    def partition(self) -> int | None:
        found = self.members.get("partition")
        if found is None or found.token is JsonToken.NULL:
            return None
        if found.token is not JsonToken.NUMBER or not found.text.isdecimal() or int(found.text) > _LARGEST_PARTITION:
            raise BadLine(self.number, "partition is no number from 0 on")
        return int(found.text)

    def timestamp(self) -> int | None:
        found = self.members.get("timestamp")
        if found is None or found.token is JsonToken.NULL:
            return None
        if found.token is JsonToken.NUMBER and found.text.isdecimal() and int(found.text) < 2**63:
            return int(found.text)
        try:
            millis = epoch_millis(parse_instant(found.text if found.token is JsonToken.STRING else ""))
        except ValueError:
            said = "timestamp is neither milliseconds since 1970 nor a time with a zone (2026-01-01T00:00:00Z)"
            raise BadLine(self.number, said) from None
        if millis < 0:
            raise BadLine(self.number, "timestamp is before 1970, which no record can have")
        return millis

    def _bytes(self, value: Value) -> bytes | None:
        if value.token is JsonToken.NULL:
            return None
        if value.token is JsonToken.STRING:
            return value.text.encode()
        return self.line[value.start : value.end]

    def _decoded(self, value: Value, name: str) -> bytes:
        try:
            if value.token is not JsonToken.STRING:
                raise ValueError
            return base64.b64decode(value.text, validate=True)
        except (ValueError, binascii.Error):
            raise BadLine(self.number, f"{name} is not base64") from None


def parsed_headers(pairs: Iterable[str], bad: Callable[[str], Exception]) -> tuple[tuple[str, bytes], ...]:
    """`NAME=VALUE` of the command line. bad: makes the error of a text without `=`."""
    found = []
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise bad(pair)
        found.append((name, value.encode()))
    return tuple(found)
