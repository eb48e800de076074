"""The grammar of RFC 8259 in plain Python: a document -> a tree that knows where each value was written.

Stricter than the RFC where it leaves a choice: a byte order mark, a lone surrogate and what is no UTF-8 are errors, and
nesting is bounded. Duplicate names are kept: what they mean depends on the declared type.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kseg.segment_reader.payload.ddl import quoted
from kseg.segment_reader.payload.decoder import Status
from kseg.segment_reader.payload.plain import BadPayload

SPACE = b" \t\n\r"
DIGITS = b"0123456789"
BOM = b"\xef\xbb\xbf"
_ESCAPES = dict(zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True))
#: First bytes of characters beyond ASCII: from, to, and how many bytes; and where the second byte is bounded.
_LEADS = ((0xC2, 0xDF, 2), (0xE0, 0xEF, 3), (0xF0, 0xF4, 4))
_SECONDS = {0xE0: (0xA0, 0xBF), 0xED: (0x80, 0x9F), 0xF0: (0x90, 0xBF), 0xF4: (0x80, 0x8F)}
_LITERALS = {ord("n"): b"null", ord("t"): b"true", ord("f"): b"false"}


class Key(str):
    """A map's key."""

    __slots__ = ()


Step = str | int
"""A field's name, a map's `Key`, or an element's number."""


def path_text(steps: list[Step]) -> str:
    """`items[2].price`"""
    parts = [f"[{step}]" if isinstance(step, int) else f".{quoted(step)}" for step in steps]
    return "".join(parts).removeprefix(".")


def bad(status: Status, steps: list[Step], position: int, reason: str) -> BadPayload:
    """The error of a document. position: the byte that shows it."""
    return BadPayload(status, f"{reason} (byte {position})", path_text(steps), _place(steps))


def _place(steps: list[Step]) -> str:
    """`items[].price`"""
    return "".join("[]" if isinstance(step, int | Key) else f".{quoted(step)}" for step in steps).removeprefix(".")


class JsonToken(Enum):
    """What a value is written as."""

    OBJECT = "an object"
    ARRAY = "an array"
    STRING = "a string"
    NUMBER = "a number"
    TRUE = "true"
    FALSE = "false"
    NULL = "null"


@dataclass
class Value:
    """One value: bytes start … end of the payload. text: a string's, unescaped, or a number's, as written."""

    token: JsonToken
    start: int
    end: int = 0
    text: str = ""
    elements: list[Value] = field(default_factory=list)
    members: list[DocumentMember] = field(default_factory=list)


@dataclass
class DocumentMember:
    """An object's member. Its name is at bytes start … end, quotes included."""

    name: str
    start: int
    end: int
    value: Value


def parse(data: bytes, start: int, max_depth: int) -> Value:
    """The document that begins at `start` and ends with the bytes. Raises BadPayload."""
    return _Parser(data, max_depth).document(start)


class _Parser:
    def __init__(self, data: bytes, max_depth: int) -> None:
        self._data, self._end, self._max_depth = data, len(data), max_depth
        self._steps: list[Step] = []
        self._depth = 0

    def document(self, start: int) -> Value:
        if self._data.startswith(BOM, start):
            raise self._refused(start, "a document does not begin with a byte order mark")
        value = self._value(self._space(start))
        at = self._space(value.end)
        if at < self._end:
            raise bad(Status.TRAILING_BYTES, [], at, f"{self._shown(at)} follows the document")
        return value

    # -- errors

    def _refused(self, at: int, reason: str, status: Status = Status.MALFORMED) -> BadPayload:
        return bad(status, self._steps, at, reason)

    def _truncated(self, within: str) -> BadPayload:
        return self._refused(self._end, f"the payload ends {within}", Status.TRUNCATED)

    def _shown(self, at: int) -> str:
        byte = self._data[at]
        return repr(chr(byte)) if 0x20 < byte < 0x7F else f"byte 0x{byte:02x}"

    # -- grammar

    def _space(self, at: int) -> int:
        while at < self._end and self._data[at] in SPACE:
            at += 1
        return at

    def _value(self, at: int) -> Value:
        if at >= self._end:
            raise self._truncated("where a value begins")
        byte = self._data[at]
        if byte == ord("{") or byte == ord("["):
            if self._depth == self._max_depth:
                raise self._refused(at, f"nested more than {self._max_depth} deep", Status.TOO_DEEP)
            self._depth += 1
            value = self._object(at) if byte == ord("{") else self._array(at)
            self._depth -= 1
            return value
        if byte == ord('"'):
            text, end = self._string(at)
            return Value(JsonToken.STRING, at, end, text)
        if byte == ord("-") or byte in DIGITS:
            end = self._number(at)
            return Value(JsonToken.NUMBER, at, end, self._data[at:end].decode())
        if byte in _LITERALS:
            return self._literal(at, _LITERALS[byte])
        raise self._refused(at, f"{self._shown(at)} begins no value")

    def _literal(self, at: int, word: bytes) -> Value:
        for number, byte in enumerate(word):
            if at + number >= self._end:
                raise self._truncated(f"within {word.decode()}")
            if self._data[at + number] != byte:
                raise self._refused(at + number, f"{self._shown(at + number)} within {word.decode()}")
        return Value(JsonToken(word.decode()), at, at + len(word))

    def _object(self, start: int) -> Value:
        value = Value(JsonToken.OBJECT, start)
        at = self._space(start + 1)
        if at < self._end and self._data[at] == ord("}"):
            value.end = at + 1
            return value
        while True:
            if at >= self._end:
                raise self._truncated("within an object")
            if self._data[at] != ord('"'):
                raise self._refused(at, f"a name in quotes expected, not {self._shown(at)}")
            name, end = self._string(at)
            self._steps.append(name)
            colon = self._space(end)
            if colon >= self._end:
                raise self._truncated("behind a name")
            if self._data[colon] != ord(":"):
                raise self._refused(colon, f"':' expected, not {self._shown(colon)}")
            member = DocumentMember(name, at, end, self._value(self._space(colon + 1)))
            self._steps.pop()
            value.members.append(member)
            at = self._space(member.value.end)
            if at >= self._end:
                raise self._truncated("within an object")
            if self._data[at] == ord("}"):
                value.end = at + 1
                return value
            if self._data[at] != ord(","):
                raise self._refused(at, f"',' or '}}' expected, not {self._shown(at)}")
            at = self._space(at + 1)

    def _array(self, start: int) -> Value:
        value = Value(JsonToken.ARRAY, start)
        at = self._space(start + 1)
        if at < self._end and self._data[at] == ord("]"):
            value.end = at + 1
            return value
        while True:
            self._steps.append(len(value.elements))
            element = self._value(at)
            self._steps.pop()
            value.elements.append(element)
            at = self._space(element.end)
            if at >= self._end:
                raise self._truncated("within an array")
            if self._data[at] == ord("]"):
                value.end = at + 1
                return value
            if self._data[at] != ord(","):
                raise self._refused(at, f"',' or ']' expected, not {self._shown(at)}")
            at = self._space(at + 1)

    def _number(self, start: int) -> int:
        at = start + 1 if self._data[start] == ord("-") else start
        first = at
        at = self._digits(at, "a number")
        if self._data[first] == ord("0") and at > first + 1:
            raise self._refused(first + 1, "a digit follows a leading zero")
        if at < self._end and self._data[at] == ord("."):
            at = self._digits(at + 1, "a fraction")
        if at < self._end and self._data[at] in b"eE":
            at += 1
            if at < self._end and self._data[at] in b"+-":
                at += 1
            at = self._digits(at, "an exponent")
        return at

    def _digits(self, at: int, what: str) -> int:
        if at >= self._end:
            raise self._truncated(f"within {what}")
        if self._data[at] not in DIGITS:
            raise self._refused(at, f"a digit of {what} expected, not {self._shown(at)}")
        while at < self._end and self._data[at] in DIGITS:
            at += 1
        return at

    # -- strings

    def _string(self, start: int) -> tuple[str, int]:
        """The text, and where the string ends behind its closing quote."""
        text = bytearray()
        at = start + 1
        while at < self._end:
            byte = self._data[at]
            if byte == ord('"'):
                return text.decode(), at + 1
            if byte < 0x20:
                raise self._refused(at, f"{self._shown(at)} must be escaped within a string")
            if byte == ord("\\"):
                character, at = self._escape(at)
                text += character
            elif byte < 0x80:
                text.append(byte)
                at += 1
            else:
                size = self._character(at)
                text += self._data[at : at + size]
                at += size
        raise self._truncated("within a string")

    def _character(self, at: int) -> int:
        """How many bytes a character of UTF-8 has (Unicode, table 3-7)."""
        lead = self._data[at]
        size = next((size for first, last, size in _LEADS if first <= lead <= last), 0)
        if not size:
            raise self._refused(at, f"{self._shown(at)} begins no character of UTF-8", Status.INVALID_UTF8)
        low, high = _SECONDS.get(lead, (0x80, 0xBF))
        for number in range(at + 1, at + size):
            if number >= self._end:
                raise self._truncated("within a character of UTF-8")
            if not low <= self._data[number] <= high:
                raise self._refused(at, f"{self._shown(at)} begins no character of UTF-8", Status.INVALID_UTF8)
            low, high = 0x80, 0xBF
        return size

    def _escape(self, at: int) -> tuple[bytes, int]:
        """The character of an escape, and where the escape ends."""
        if at + 1 >= self._end:
            raise self._truncated("within an escape")
        byte = self._data[at + 1]
        if byte in _ESCAPES:
            return bytes([_ESCAPES[byte]]), at + 2
        if byte != ord("u"):
            raise self._refused(at + 1, f"{self._shown(at + 1)} is no escape")
        unit = self._unit(at + 2)
        if not 0xD800 <= unit < 0xE000:
            return chr(unit).encode(), at + 6
        if unit >= 0xDC00:
            raise self._refused(at, "a lone surrogate")
        for number, wanted in enumerate(b"\\u"):
            if at + 6 + number >= self._end:
                raise self._truncated("within a surrogate pair")
            if self._data[at + 6 + number] != wanted:
                raise self._refused(at, "a lone surrogate")
        low = self._unit(at + 8)
        if not 0xDC00 <= low < 0xE000:
            raise self._refused(at, "a lone surrogate")
        return chr(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00)).encode(), at + 12

    def _unit(self, at: int) -> int:
        """Four hexadecimal digits."""
        for number in range(4):
            if at + number >= self._end:
                raise self._truncated("within an escape")
            if self._data[at + number] not in b"0123456789abcdefABCDEF":
                raise self._refused(at + number, f"{self._shown(at + number)} is no hexadecimal digit")
        return int(self._data[at : at + 4], 16)
