"""Code generation for `reader` and `writer`: source text built line by line, compiled once, with the names it uses."""

from __future__ import annotations

import linecache
import struct
from collections.abc import Iterable
from typing import Any

from kseg.client.protocol.fields import FIXED
from kseg.client.protocol.schema import NEVER, Field, Struct


class SourceText:
    """The source code of a function while it is generated."""

    def __init__(self, head: str, **names: Any) -> None:
        self.lines = [head]
        self.names = names

    def add(self, *lines: str, depth: int = 1) -> None:
        self.lines += ["    " * depth + line for line in lines]

    def packer(self, fields: Iterable[Field], method: str) -> tuple[str, int]:
        """Name of a compiled `struct` method for neighbouring fields of fixed width, and their size in bytes."""
        letters = "".join(FIXED[field.kind][0] for field in fields)
        compiled = struct.Struct(">" + letters)
        # "?" is not allowed in a name; "H" and "h" must remain different names.
        name = f"{method}_{letters.replace('?', 't')}"
        self.names[name] = getattr(compiled, method)
        return name, compiled.size

    def compile(self, function: str, title: str) -> Any:
        """The function; its text is known to tracebacks and debuggers under `title`."""
        text = self.text
        linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
        exec(compile(text, title, "exec"), self.names)
        return self.names[function]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"


class VersionShape:
    """One struct in one version: which fields it has, and in which form."""

    def __init__(self, cls: type[Struct], version: int, flexible: bool) -> None:
        self.cls = cls
        self.version = version
        self.flexible = flexible
        self.plain = [field for field in cls.FIELDS if field.versions.has(version) and not self._tagged(field)]
        self.tagged = sorted(
            (field for field in cls.FIELDS if field.versions.has(version) and self._tagged(field)),
            key=lambda field: field.tag or 0,
        )
        self.absent = [field for field in cls.FIELDS if not field.versions.has(version)]

    def _tagged(self, field: Field) -> bool:
        return field.tagged != NEVER and field.tagged.has(self.version)

    def compact(self, field: Field) -> str:
        """The part of a helper's name that says how a length is encoded."""
        if not self.flexible:
            return ""
        return "compact_" if field.flexible is None or field.flexible.has(self.version) else ""

    def nullable(self, field: Field) -> bool:
        return field.nullable.has(self.version)

    def least_size(self) -> int:
        """The fewest bytes that this struct can take, at least 1: bounds how many of them a frame can hold."""
        size = sum(self._least(field) for field in self.plain) + self.flexible
        return max(size, 1)

    def _least(self, field: Field) -> int:
        if field.kind == "struct":
            return 1 if self.nullable(field) else self.nested(field).least_size()
        compact = bool(self.compact(field))
        return least_size(field.kind, compact)

    def nested(self, field: Field) -> VersionShape:
        """The shape of a struct field's or array's own struct."""
        assert isinstance(field.of, type)
        return VersionShape(field.of, self.version, self.flexible)


def least_size(kind: str, compact: bool) -> int:
    """The fewest bytes that a value of this kind can take."""
    if kind in FIXED:
        return FIXED[kind][1]
    if kind == "uuid":
        return 16
    if compact:
        return 1
    return 2 if kind == "string" else 4
