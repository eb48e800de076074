"""The page on the protocol: every API with its versions and fields, read off the definitions (`kseg api docs`)."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from kseg.client.protocol.api import Api
from kseg.client.protocol.enum_names import names_of
from kseg.client.protocol.fields import ZERO_UUID
from kseg.client.protocol.json_form import json_name
from kseg.client.protocol.registry import API_BY_KEY
from kseg.client.protocol.schema import NEVER, Field, Message, Struct, Versions
from kseg.jobs.api.coding import defined_in, embedded_modules

_HEAD = """\
# The protocol

Every API that this client has a definition of, in every version; below, the [formats inside of
bytes](#formats-inside-of-bytes). This page is made from the definitions, by `make docs` or `kseg api docs`.

A field's name is the one that JSON has in `kseg api call`, `encode` and `decode`; `[]` is a list. *Versions* are those
that have the field, *null* those in which it may be null, *tag* is its number in the tagged section of a flexible
version. Where no default is given it is 0, false, empty, or a struct of defaults. A field that is *ignorable* is left
out where the version has no place for it; any other field with a value is rejected there.

*Deprecated* versions are those that Kafka 4 has dropped; older brokers support them. *Codec only* APIs are spoken among
brokers and controllers: this client encodes and decodes them, and calls none of them.

"""


_TABLE = "\n| field | type | versions | null | default | tag | |\n| --- | --- | --- | --- | --- | --- | --- |\n"

_EMBEDDED = """
## Formats inside of bytes

Formats of opaque bytes in other messages and in records of Kafka's own topics. `kseg api encode NAME data` and
`decode NAME data` know them by these names.
"""


def page() -> str:
    """The whole page."""
    return "".join(_lines())


def _lines() -> Iterator[str]:
    yield _HEAD
    yield "| key | API | versions | flexible | deprecated | |\n| ---: | --- | --- | --- | --- | --- |\n"
    for api in API_BY_KEY.values():
        codec_only = "" if api.scope == "client" else f"codec only ({api.scope})"
        yield (
            f"| {api.key} | [{api.name}](#{api.name.lower()}) | {_span(api.versions)} "
            f"| {_within(api.flexible, api.versions)} | {_span(api.deprecated)} | {codec_only} |\n"
        )
    for api in API_BY_KEY.values():
        yield from _api(api)

    yield _EMBEDDED
    for module in embedded_modules().values():
        yield from _formats(module)


def _formats(module: ModuleType) -> Iterator[str]:
    """A module of formats: what it says, and one table for each of them."""
    title, _, notes = (inspect.getdoc(module) or "").partition("\n\n")
    yield f"\n### {module.__name__.rpartition('.')[2]}\n\n{' '.join(title.split())}\n"
    if notes:
        yield f"\n{notes}\n"
    for cls in defined_in(module):
        key = getattr(cls, "KEY", None)
        kind = "" if key is None else f", type {key}"
        yield f"\n**{cls.__name__}**, v{_span(cls.VERSIONS)}{kind}: {_about(cls)}\n"
        if cls.FIELDS:
            yield _TABLE
            yield from _fields(cls, cls, cls.VERSIONS, "")


def _api(api: Api[Any]) -> Iterator[str]:
    title, notes, own = _docstring_of(api.request)
    yield f"\n## {api.name}\n\n"
    if api.scope != "client":
        yield f"*Codec only: spoken by {api.scope}s.* "
    yield f"{' '.join(title.split())}\n"
    if notes:
        yield f"\n{notes}\n"
    yield _TABLE
    for side, message, about in (("request", api.request, own), ("response", api.response, _about(api.response))):
        yield f"| **{side}** | | | | | | {about} |\n"
        yield from _fields(message, message, api.versions, "")


def _docstring_of(request: type[Message]) -> tuple[str, str, str]:
    """A request's docstring: what its API does, notes such as the history of its versions, and the request's fields."""
    title, *notes, own = (inspect.getdoc(request) or "").split("\n\n")
    return title, "\n\n".join(notes), _in_a_cell(own)


def _fields(message: type[Message], struct: type[Struct], within: Versions, path: str) -> Iterator[str]:
    for field in struct.FIELDS:
        name = f"{path}{json_name(field.name)}" + ("[]" if field.kind == "array" else "")
        yield _row(message, field, within, name)
        if isinstance(field.of, type):
            yield from _fields(message, field.of, within, f"{name}.")


def _row(message: type[Message], field: Field, within: Versions, name: str) -> str:
    kind = field.kind if field.kind != "array" else field.of
    shown = "struct" if isinstance(kind, type) else str(kind)
    notes = [_about(field.of)] if isinstance(field.of, type) else []
    table = names_of(message.__name__, field)
    if table is not None:
        notes.append(f"{table.what}s as bits" if field.name.endswith("_operations") else table.what)
    if field.ignorable:
        notes.append("ignorable")
    versions = _within(field.versions, within)
    tag = "" if field.tag is None else str(field.tag)
    if tag and (field.tagged.lowest, field.tagged.highest) != (field.versions.lowest, field.versions.highest):
        tag += f" (v{_within(field.tagged, within)})"
    cells = [
        f"`{name}`",
        shown,
        versions,
        _within(_both(field.nullable, field.versions), within),
        _default(field),
        tag,
        "; ".join(filter(None, notes)),
    ]
    return f"| {' | '.join(cells)} |\n"


def _both(one: Versions, other: Versions) -> Versions:
    return Versions(max(one.lowest, other.lowest), min(one.highest, other.highest)) if one != NEVER else NEVER


def _default(field: Field) -> str:
    value = field.default
    if value is None:
        return "null"
    if value in (0, False, "", b"", "empty") or value == ZERO_UUID:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _span(versions: Versions) -> str:
    lowest, highest = versions
    if lowest > highest:
        return ""
    return str(lowest) if lowest == highest else f"{lowest}–{highest}"


def _within(versions: Versions, all_of: Versions) -> str:
    """A range in words, cut to those that the API has."""
    lowest, highest = max(versions.lowest, all_of.lowest), min(versions.highest, all_of.highest)
    return f"{lowest}+" if lowest < highest == all_of.highest else _span(Versions(lowest, highest))


def _about(cls: type[Any]) -> str:
    """A class's own words on one line, safe in a table's cell."""
    return _in_a_cell(cls.__dict__.get("__doc__") or "")


def _in_a_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
