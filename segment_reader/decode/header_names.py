"""Names of headers: text for Kafka, bytes in the log (KIP-82), which some producers fill with other encodings.

Java's client makes a `String` of them, which has U+FFFD in place of what is not UTF-8. `java_text` gives the same text.
"""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

#: The encoded half of a surrogate pair, complete or cut off. Java replaces it as one; Python would replace each byte.
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT: Final = "\ufffd".encode()

LARGEST_REPLACED: Final = len(_REPLACEMENT)
"""Bytes of text that one byte of a name becomes at most."""


def java_text(name: bytes) -> str:
    """The text that `new String(name, UTF_8)` gives in Java."""
    return _SURROGATE.sub(_REPLACEMENT, name).decode("utf-8", "replace")


def as_text(names: pa.BinaryArray) -> pa.StringArray:
    """Each name as `java_text`. Few different names are expected: each is converted once."""
    different = names.dictionary_encode()
    texts = pa.array([java_text(name) for name in different.dictionary.to_pylist()], pa.string())
    return texts.take(different.indices)


def is_utf8(name: bytes) -> bool:
    """Whether the name is valid UTF-8, so that its text says all of it."""
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True
