"""Generates the function that reads one struct in one version.

The generated code has no branches on the version, and reads adjacent numbers with one call. For a partition in a Fetch
response, version 12, it is as follows (shortened):

    def read_PartitionData(buf, pos, end):
        o = new(cls)
        if end - pos < 30:
            raise short(pos, 30, end)
        o.partition_index, o.error_code, … = unpack_from_ihqqq(buf, pos)
        pos += 30
        n, pos = read_compact_count(buf, pos, end, 17)
        …
        o.records, pos = read_nullable_compact_records(buf, pos, end)

`pos` is always the next unread byte, `end` the position after the last one that may be read.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from kseg.client.protocol import primitives
from kseg.client.protocol.codegen import SourceText, VersionShape, least_size
from kseg.client.protocol.fields import FIXED, ByteString
from kseg.client.protocol.schema import Field, Struct

Reader: TypeAlias = Callable[[ByteString, int, int], tuple[Any, int]]


@cache
def reader(cls: type[Struct], version: int, flexible: bool) -> Reader:
    """The compiled reader: (data, position, end) -> (instance, position after it); raises `DecodeError`."""
    read: Reader = reader_source(cls, version, flexible).compile(
        f"read_{cls.__name__}", f"<reader of {cls.__qualname__} v{version}>"
    )
    return read


def reader_source(cls: type[Struct], version: int, flexible: bool) -> SourceText:
    """The source code of `reader`, for inspection."""
    shape = VersionShape(cls, version, flexible)
    source = SourceText(f"def read_{cls.__name__}(buf, pos, end):", cls=cls, new=cls.__new__, **_HELPERS)
    source.add("o = new(cls)")
    for field in shape.absent + shape.tagged:
        _default(source, field)
    run: list[Field] = []
    for field in shape.plain:
        if field.kind in FIXED:
            run.append(field)
            continue
        _numbers(source, run)
        run = []
        _value(source, shape, field, "end")
    _numbers(source, run)
    if flexible:
        _tagged_section(source, shape)
    source.add("return o, pos")
    return source


_HELPERS = {
    name: function
    for name, function in vars(primitives).items()
    if name.startswith(("read_", "skip_")) or name in ("short", "null", "tag_end")
}


def _default(source: SourceText, field: Field) -> None:
    if field.kind in ("array", "struct") and field.default is not None:
        source.names[f"fresh_{field.name}"] = field.fresh_default
        source.add(f"o.{field.name} = " + ("[]" if field.kind == "array" else f"fresh_{field.name}()"))
    else:
        source.names[f"default_{field.name}"] = field.default
        source.add(f"o.{field.name} = default_{field.name}")


def _numbers(source: SourceText, run: list[Field], end: str = "end", depth: int = 1) -> None:
    if not run:
        return
    unpack, size = source.packer(run, "unpack_from")
    targets = ", ".join(f"o.{field.name}" for field in run)
    source.add(
        f"if {end} - pos < {size}:",
        f"    raise short(pos, {size}, {end})",
        f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buf, pos)",
        f"pos += {size}",
        depth=depth,
    )


def _value(source: SourceText, shape: VersionShape, field: Field, end: str, depth: int = 1) -> None:
    if field.kind in FIXED:
        _numbers(source, [field], end, depth)
    elif field.kind == "array":
        _array(source, shape, field, end, depth)
    elif field.kind == "struct":
        _struct(source, shape, field, end, depth)
    elif field.kind == "uuid":
        source.add(f"o.{field.name}, pos = read_uuid(buf, pos, {end})", depth=depth)
    else:
        form = ("nullable_" if shape.nullable(field) else "") + shape.compact(field)
        source.add(f"o.{field.name}, pos = read_{form}{field.kind}(buf, pos, {end})", depth=depth)


def _struct(source: SourceText, shape: VersionShape, field: Field, end: str, depth: int) -> None:
    nested = shape.nested(field)
    source.names[f"read_{field.name}"] = reader(nested.cls, nested.version, nested.flexible)
    read = f"o.{field.name}, pos = read_{field.name}(buf, pos, {end})"
    if not shape.nullable(field):
        source.add(read, depth=depth)
        return
    tagged = "tagged_" if field in shape.tagged else ""
    source.add(
        f"there, pos = read_{tagged}presence(buf, pos, {end})",
        f"o.{field.name} = None",
        "if there:",
        f"    {read}",
        depth=depth,
    )


def _array(source: SourceText, shape: VersionShape, field: Field, end: str, depth: int) -> None:
    compact = shape.compact(field)
    size = shape.nested(field).least_size() if isinstance(field.of, type) else least_size(str(field.of), bool(compact))
    source.add(f"n, pos = read_{compact}count(buf, pos, {end}, {size})", depth=depth)
    if shape.nullable(field):
        source.add("if n < 0:", f"    o.{field.name} = None", "else:", depth=depth)
        depth += 1
    else:
        source.add("if n < 0:", "    raise null(pos)", depth=depth)
    if isinstance(field.of, str) and field.of in FIXED:
        letter, size = FIXED[field.of]
        source.names["unpack_from"] = struct.unpack_from
        source.add(
            f"o.{field.name} = list(unpack_from(f'>{{n}}{letter}', buf, pos)) if n else []",
            f"pos += n * {size}",
            depth=depth,
        )
        return
    if isinstance(field.of, str):
        read = "read_uuid" if field.of == "uuid" else f"read_{compact}{field.of}"
    else:
        nested = shape.nested(field)
        read = f"read_{nested.cls.__name__}"
        source.names[read] = reader(nested.cls, nested.version, nested.flexible)
    source.add(
        f"o.{field.name} = items = []",
        "for _ in range(n):",
        f"    item, pos = {read}(buf, pos, {end})",
        "    items.append(item)",
        depth=depth,
    )


def _tagged_section(source: SourceText, shape: VersionShape) -> None:
    source.add("if pos < end and buf[pos] == 0:", "    pos += 1")
    if not shape.tagged:
        source.add("else:", "    pos = skip_tags(buf, pos, end)")
        return
    source.add("else:", "    tags, pos = read_uvarint(buf, pos, end)", "    for _ in range(tags):")
    source.add("tag, pos, stop = read_tag(buf, pos, end)", depth=3)
    for i, field in enumerate(shape.tagged):
        source.add(f"{'elif' if i else 'if'} tag == {field.tag}:", depth=3)
        _value(source, shape, field, "stop", depth=4)
    source.add("else:", "    pos = stop", "if pos != stop:", "    raise tag_end(pos, stop)", depth=3)
