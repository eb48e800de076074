"""`sasl.jaas.config`: Java's JAAS text for one login module.

    org.apache.kafka.common.security.scram.ScramLoginModule required username="alice" password="…";
    └ class                                                 └ flag   └ options, values quoted or bare

Quotes and escapes are those of `java.io.StreamTokenizer`, with which Kafka reads it. No message quotes a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|\#[^\n]*
    |"(?P<double>(?:[^"\\\n]|\\.)*)"
    |'(?P<single>(?:[^'\\\n]|\\.)*)'
    |(?P<mark>[=;])
    |(?P<word>[^\s"'=;]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One login module: the class's simple name (`ScramLoginModule`), and its options."""

    name: str
    options: Mapping[str, str] = field(repr=False)


def parse_jaas(text: str) -> LoginModule:
    """Raises ValueError, whose text holds nothing of the values."""
    words = list(_words(text))
    if not words:
        raise ValueError("is empty")
    module, quoted = words[0]
    if quoted or not re.fullmatch(r"[\w.$]+", module):
        raise ValueError("does not begin with a login module's class")
    if len(words) < 2 or words[1][0].lower() not in _FLAGS:
        raise ValueError("has no control flag, such as required, after the login module's class")
    options: dict[str, str] = {}
    at = 2
    while at < len(words) and words[at] != (";", False):
        if at + 2 >= len(words) or words[at + 1] != ("=", False) or words[at + 2] in ((";", False), ("=", False)):
            raise ValueError(f"option {at // 3 + 1} is not name=value")
        name, value = words[at][0], words[at + 2][0]
        if name in options:
            raise ValueError("gives an option twice")
        options[name] = value
        at += 3
    if at >= len(words):
        raise ValueError("does not end with a semicolon")
    if at + 1 < len(words):
        raise ValueError("has text after the semicolon: give one login module")
    return LoginModule(module.rpartition(".")[2], options)


def _words(text: str) -> Iterator[tuple[str, bool]]:
    """Words, and whether each was quoted."""
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError("has a quote that is not closed")
        at = match.end()
        quoted = match["double"] if match["double"] is not None else match["single"]
        if quoted is not None:
            yield _ESCAPE.sub(_unescaped, quoted), True
        elif match["mark"] or match["word"]:
            yield match[0], False


def _unescaped(match: re.Match[str]) -> str:
    body = match[1]
    return chr(int(body, 8)) if body[0] in "01234567" else _ESCAPES.get(body, body)
