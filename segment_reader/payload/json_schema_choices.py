"""The members of a JSON Schema's `oneOf` or `anyOf`: their names as columns, and what shows which one an object is.

A member is called by the last part of its `$ref`, else by its `title` (of a whole schema in another document this comes
first), else by the text that only it has as the `const` of a property. Its place in the list is no name: the next
version may have another order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urldefrag

from kseg.segment_reader.payload.json.choices import Choice, Member, canonical_value

Values = Mapping[str, frozenset[str]]
"""By property, what it may be: see `segment_reader.payload.json.choices.canonical`."""

_NAME: Final = re.compile(r"[^ ,;{}()\n\t=]+")
"""What a Delta table takes as a name of a field."""


class NoChoice(Exception):
    """Members that have no columns, or that no property tells apart. The text says why."""


@dataclass(frozen=True)
class FoundMember:
    """schema: the member's, with what is beside the choice; base: the document that it is in. given: as the list has
    it, and own: that to which its `$ref` leads. references: all on the way. values: what its properties may be."""

    schema: dict[str, Any]
    base: str
    given: Any
    own: dict[str, Any]
    references: tuple[tuple[str, str], ...]
    values: Values

    @property
    def names(self) -> list[str]:
        """Possible names, the best first."""
        title = self.own.get("title")
        titles = [title] if isinstance(title, str) else []
        reference = self.given.get("$ref") if isinstance(self.given, dict) else None
        if isinstance(reference, str):
            document, pointer = urldefrag(reference)
            last = unquote(pointer or document).rsplit("/", 1)[-1].replace("~1", "/").replace("~0", "~")
            titles = [last, *titles] if pointer else [*titles, last]
        return [name for name in titles if _NAME.fullmatch(name)]


def allowed_values(schema: Any) -> frozenset[str]:
    """The values that a property's `const` or `enum` allows; empty: anything."""
    if not isinstance(schema, dict):
        return frozenset()
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    simple = isinstance(values, list) and all(isinstance(each, str | int | float | None) for each in values)
    return frozenset(canonical_value(each) for each in values if each is not None) if simple else frozenset()


def member_names(members: list[FoundMember]) -> list[str]:
    """Raises NoChoice: not every member has a name of its own."""
    names = [next(iter(each.names), None) or _of_const(each, members) for each in members]
    for number, name in enumerate(names):
        if name is None:
            raise NoChoice(f"the member at {number} has no $ref, title or const that can be a column's name")
    made = [name for name in names if name is not None]
    lower = [name.lower() for name in made]
    if twice := [name for name in made if lower.count(name.lower()) > 1]:
        raise NoChoice(f"several members are called {twice[0]}")
    return made


def _of_const(member: FoundMember, members: list[FoundMember]) -> str | None:
    for name, values in member.values.items():
        text = next(iter(values))
        others = [each.values.get(name, frozenset()) for each in members if each is not member]
        if len(values) == 1 and text.startswith('"') and not any(values & each or not each for each in others):
            return text[1:-1] if _NAME.fullmatch(text[1:-1]) and "\\" not in text else None
    return None


def choice_of(names: list[str], members: list[FoundMember]) -> Choice:
    """Raises NoChoice: no property can show which of two members an object is."""
    required = [_texts(each.schema.get("required")) for each in members]
    always = frozenset.intersection(*required) - {name for each in members for name in each.values}
    properties = [frozenset(each.schema.get("properties") or ()) for each in members]
    every = frozenset().union(*properties)
    made = []
    for number, each in enumerate(members):
        values = {
            name: its for name, its in each.values.items() if any(other.values.get(name) != its for other in members)
        }
        closed = each.schema.get("additionalProperties") is False and "patternProperties" not in each.schema
        excluded = every - properties[number] if closed else frozenset()
        made.append(Member(names[number], values, required[number] - always, excluded))
    for number, one in enumerate(made):
        if same := [each.name for each in made[:number] if each.conditions == one.conditions]:
            raise NoChoice(f"{same[0]} and {one.name} have no const, enum or required property that differs")
    return Choice(tuple(made))


def _texts(listed: Any) -> frozenset[str]:
    return frozenset(each for each in listed if isinstance(each, str)) if isinstance(listed, list) else frozenset()
