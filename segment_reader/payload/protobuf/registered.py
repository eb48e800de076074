"""Schemas as registries have them -> file descriptors: `.proto` text, or a file's descriptor in base64.

Confluent's client for Python registers descriptors, others text; a registry may serve either as it was given.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from kseg.segment_reader.payload.errors import InvalidSchema
from kseg.segment_reader.payload.plain import BadPayload
from kseg.segment_reader.payload.protobuf.built_in import is_built_in
from kseg.segment_reader.payload.protobuf.compiler import compile_text
from kseg.segment_reader.payload.protobuf.descriptors import dependencies
from kseg.segment_reader.payload.protobuf.map_entries import with_entries, without_option, written

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
