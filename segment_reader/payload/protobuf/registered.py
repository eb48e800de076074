"""Schemas as registries have them -> file descriptors: `.proto` text, or a file's descriptor in base64.

Confluent's client for Python registers descriptors, others text; a registry may serve either as it was given.

Messages of a map's entries differ between a text in a registry and its descriptors:

    map<string, int32> m = 1;             protoc makes the message MEntry where the field is; the text has none
    repeated MEntry m = 1;                as Confluent's serializer for Java registers a map by default; protoc refuses
    message MEntry {                      the option. The text has the message, behind the fields
      option map_entry = true; … }

Frames name a message by its place among the messages of the registered text, as `ProtobufSchema.toMessageName` of
Confluent's client for Java counts: those that protoc makes have no place there. So descriptors of a text have them
behind the others, and those of the text where they are written.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from typing import Final

from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.plain import BadPayload
from kseg.segment_reader.payload.protobuf.built_in import is_built_in
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.descriptors import dependencies
from kseg.segment_reader.payload.protobuf.wire import DELIMITED, VARINT, WireReader

_OPTION: Final = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
_MARK: Final = 536_870_911
"""The highest number of a field: entries have no other reserved numbers."""

# Numbers of fields in descriptor.proto.
_FILE, _MESSAGE, _NESTED, _OPTIONS, _RESERVED = 1, 4, 3, 7, 9
_ENTRY: Final = b"\x38\x01"
"""Options with `map_entry = true` alone, which is their field 7."""


def without_option(text: str) -> str:
    """The text for protoc: a reserved number marks the messages that have the option."""
    return _OPTION.sub(f"reserved {_MARK};", text)


def with_entries(descriptors: bytes) -> bytes:
    """A FileDescriptorSet that protoc made of such texts: marked messages are entries, and protoc's own come last."""
    return b"".join(written(_FILE, _of_file(file)) for _, file, _ in _fields(descriptors))


def _of_file(data: bytes) -> bytes:
    return b"".join(
        written(number, _of_message(content)) if number == _MESSAGE else whole
        for number, content, whole in _fields(data)
    )


def _of_message(data: bytes) -> bytes:
    kept: list[bytes] = []
    nested: list[bytes] = []
    made: list[bytes] = []
    for number, content, whole in _fields(data):
        if number == _RESERVED and _is_mark(content):
            kept.append(written(_OPTIONS, _ENTRY))
        elif number == _NESTED:
            of_protoc = any(inner == _OPTIONS and own == _ENTRY for inner, own, _ in _fields(content))
            (made if of_protoc else nested).append(written(_NESTED, _of_message(content)))
        else:
            kept.append(whole)
    return b"".join((*kept, *nested, *made))


def _is_mark(data: bytes) -> bool:
    """Whether a range of reserved numbers begins with the mark."""
    reader = WireReader(data)
    return reader.tag() == (1, VARINT) and reader.varint() == _MARK


def _fields(data: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Each field's number, the bytes of a length-delimited value, and all its bytes."""
    reader = WireReader(data)
    start = 0
    for number, kind in reader.fields():
        content = b""
        if kind == DELIMITED:
            below = reader.below()
            content = data[below.position : below.end]
        else:
            reader.skip(number, kind)
        yield number, content, data[start : reader.position]
        start = reader.position


def written(number: int, content: bytes) -> bytes:
    """A length-delimited field's bytes."""
    return _varint(number << 3 | DELIMITED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


_FILE = 1  # FileDescriptorSet's field `file`


def registered_descriptors(text: str, references: Mapping[str, str]) -> bytes:
    """A FileDescriptorSet with all imports, the schema's own file last.

    references: the schemas that it imports, and that these import, by the name in the `import`.

    Raises as `compiler.compile_text` does: for descriptors alone it runs protoc only for files that need no reference.
    """
    own = _descriptor(text)
    if own is None:
        return _compiled(text, references)
    files = {name: _descriptor(reference) for name, reference in references.items()}
    found = b"".join(written(_FILE, data) for data in files.values() if data is not None)
    for name, reference in references.items():
        if files[name] is None:
            found += _compiled(reference, {path: other for path, other in references.items() if path != name})
    known = {path for data in (own, *files.values()) if data is not None for path in _imports(data)}
    missing = (path for path in sorted(known) if is_built_in(path) and path not in references)
    imports = "".join(f'import "{path}";' for path in missing)
    if imports:
        found = compile_text(f'syntax = "proto3"; {imports}') + found
    return found + written(_FILE, own)


def _compiled(text: str, references: Mapping[str, str]) -> bytes:
    return with_entries(
        compile_text(without_option(text), {name: without_option(own) for name, own in references.items()})
    )


def _descriptor(text: str) -> bytes | None:
    """The bytes of a descriptor in base64; None: it is text."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _imports(data: bytes) -> list[str]:
    try:
        found = dependencies(data)
    except (BadPayload, UnicodeDecodeError) as error:
        raise InvalidSchema("", f"no file descriptor: {error}") from None
    strange = next((path for path in found if '"' in path or "\\" in path or "\n" in path), None)
    if strange is not None:
        raise InvalidSchema("", f"no path of an imported file: {strange!r}")
    return found
