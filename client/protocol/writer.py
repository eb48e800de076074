"""Generates the function that writes one struct in one version, the counterpart of `reader`.

A written message is a list of byte strings, joined once at the end: a record set is not copied before. Fields that the
version does not have are checked first: anything but the default is rejected, unless the field is ignorable.

Values are not type-checked. If one does not fit, some operation raises an exception of its own, and `codec` then finds
the value with `encode_errors.explain`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from kseg.client.protocol import primitives
from kseg.client.protocol.codegen import SourceText, VersionShape
from kseg.client.protocol.errors import UnsupportedFieldError
from kseg.client.protocol.fields import FIXED
from kseg.client.protocol.primitives import Put
from kseg.client.protocol.schema import Field, Struct

Writer: TypeAlias = Callable[[Any, Put], None]


@cache
def writer(cls: type[Struct], version: int, flexible: bool) -> Writer:
    """The compiled writer: (instance, append) -> None; appends byte strings."""
    write: Writer = writer_source(cls, version, flexible).compile(
        f"write_{cls.__name__}", f"<writer of {cls.__qualname__} v{version}>"
    )
    return write


def writer_source(cls: type[Struct], version: int, flexible: bool) -> SourceText:
    """The source code of `writer`, for inspection."""
    shape = VersionShape(cls, version, flexible)
    source = SourceText(f"def write_{cls.__name__}(o, put):", **_HELPERS)
    for field in shape.absent:
        if not field.ignorable:
            _refuse(source, shape, field)
    run: list[Field] = []
    for field in shape.plain:
        if field.kind in FIXED:
            run.append(field)
            continue
        _numbers(source, run)
        run = []
        _value(source, shape, field)
    _numbers(source, run)
    if flexible:
        _tagged_section(source, shape)
    if len(source.lines) == 1:
        source.add("pass")
    return source


_HELPERS = {name: function for name, function in vars(primitives).items() if name.startswith("put_")}


def _not_default(source: SourceText, field: Field) -> str:
    """An expression that is true when the field holds anything but its default."""
    value = f"o.{field.name}"
    if field.default is None:
        return f"{value} is not None"
    if field.kind in ("array", "bytes"):
        return f"{value} is None or len({value})"
    source.names[f"default_{field.name}"] = field.fresh_default()
    return f"{value} != default_{field.name}"


def _refuse(source: SourceText, shape: VersionShape, field: Field) -> None:
    name, version = shape.cls.__qualname__, shape.version

    def refusal(value: object) -> UnsupportedFieldError:
        reason = f"is not in this version, but is set to {value!r}"
        return UnsupportedFieldError(reason, field=field.name, message=name, version=version)

    source.names[f"refuse_{field.name}"] = refusal
    source.add(f"if {_not_default(source, field)}:", f"    raise refuse_{field.name}(o.{field.name})")


def _numbers(source: SourceText, run: list[Field], put: str = "put", depth: int = 1) -> None:
    if not run:
        return
    pack, _ = source.packer(run, "pack")
    source.add(f"{put}({pack}({', '.join(f'o.{field.name}' for field in run)}))", depth=depth)


def _value(source: SourceText, shape: VersionShape, field: Field, put: str = "put", depth: int = 1) -> None:
    if field.kind in FIXED:
        _numbers(source, [field], put, depth)
        return
    compact = shape.compact(field)
    if shape.nullable(field):
        null = _NULLS[field.kind, bool(compact)]
        if field.kind == "struct" and field in shape.tagged:
            null = _NO_TAGGED_STRUCT
        no_value = f"{put}({null!r})"
        source.add(f"if o.{field.name} is None:", f"    {no_value}", "else:", depth=depth)
        depth += 1
        if field.kind == "struct":
            source.add(f"{put}({_PRESENT!r})", depth=depth)
    if field.kind == "array":
        _array(source, shape, field, put, depth)
    elif field.kind == "struct":
        nested = shape.nested(field)
        source.names[f"write_{field.name}"] = writer(nested.cls, nested.version, nested.flexible)
        source.add(f"write_{field.name}(o.{field.name}, {put})", depth=depth)
    elif field.kind == "uuid":
        source.add(f"{put}(o.{field.name}.bytes)", depth=depth)
    else:
        kind = "bytes" if field.kind == "records" else field.kind
        source.add(f"put_{compact}{kind}({put}, o.{field.name})", depth=depth)


_PRESENT = b"\x01"
_NO_TAGGED_STRUCT = b"\x00"
_NULLS = {
    ("string", False): b"\xff\xff",
    ("bytes", False): b"\xff\xff\xff\xff",
    ("records", False): b"\xff\xff\xff\xff",
    ("array", False): b"\xff\xff\xff\xff",
    ("struct", False): b"\xff",
    ("string", True): b"\x00",
    ("bytes", True): b"\x00",
    ("records", True): b"\x00",
    ("array", True): b"\x00",
    ("struct", True): b"\xff",
}


def _array(source: SourceText, shape: VersionShape, field: Field, put: str, depth: int) -> None:
    compact = shape.compact(field)
    source.add(f"items = o.{field.name}", f"put_{compact}count({put}, len(items))", depth=depth)
    if isinstance(field.of, str) and field.of in FIXED:
        source.names["pack"] = struct.pack
        source.add(f"{put}(pack(f'>{{len(items)}}{FIXED[field.of][0]}', *items))", depth=depth)
        return
    if isinstance(field.of, type):
        nested = shape.nested(field)
        write = f"write_{nested.cls.__name__}"
        source.names[write] = writer(nested.cls, nested.version, nested.flexible)
        source.add("for item in items:", f"    {write}(item, {put})", depth=depth)
    elif field.of == "uuid":
        source.add("for item in items:", f"    {put}(item.bytes)", depth=depth)
    else:
        source.add("for item in items:", f"    put_{compact}{field.of}({put}, item)", depth=depth)


def _tagged_section(source: SourceText, shape: VersionShape) -> None:
    if not shape.tagged:
        source.add("put(b'\\x00')")
        return
    source.add("tags = []")
    for field in shape.tagged:
        source.add(f"if {_not_default(source, field)}:", "    parts = []", "    add = parts.append")
        _value(source, shape, field, "add", depth=2)
        source.add(f"    tags.append(({field.tag}, b''.join(parts)))")
    source.add("put_tags(put, tags)")
