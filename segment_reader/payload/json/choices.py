"""Which member of a choice (JSON Schema's `oneOf` and `anyOf` of objects) an object is: by its properties alone.

    1. a member whose `const` or `enum` of a property does not have the object's value is out; a property that is not
       written, or null, shows nothing
    2. if several are left, those are out of which a required property is not written, or that allow no further
       properties and lack one that is written and another member's

One must be left. Nothing else of the members' schemas counts, and nothing is guessed.
Source: https://json-schema.org/draft/2020-12/json-schema-validation, sections 6.1 and 6.5.3.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

NULL: Final = b"null"
_SHOWN: Final = 40
"""Characters of a value in a reason."""


class Undecided(Exception):
    """An object that is none of the members, or may be several. The text says why."""


@dataclass(frozen=True)
class Member:
    """One of a choice's schemas. name: of its field in the struct. values: the texts (see `canonical`) of what
    properties may be. required: properties that must be written. excluded: properties that must not be."""

    name: str
    values: Mapping[str, frozenset[str]]
    required: frozenset[str]
    excluded: frozenset[str]

    @property
    def conditions(self) -> tuple[Any, ...]:
        return dict(self.values), self.required, self.excluded


@dataclass(frozen=True)
class Choice:
    """Two members or more, which differ by their conditions."""

    members: tuple[Member, ...]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The properties that decide, each once."""
        by_member = ((*one.values, *sorted(one.required | one.excluded)) for one in self.members)
        return tuple(dict.fromkeys(name for names in by_member for name in names))

    def member(self, written: Mapping[str, bytes]) -> Member:
        """The member that an object is. written: its properties' values as they are written.

        Raises Undecided.
        """
        values = {name: canonical(written[name]) for name in self.names if written.get(name, NULL) != NULL}
        left = [each for each in self.members if not _differs(each, values)]
        if len(left) > 1:
            left = [each for each in left if each.required <= written.keys() and not each.excluded & written.keys()]
        if len(left) == 1:
            return left[0]
        if left:
            names = ", ".join(each.name for each in left)
            raise Undecided(f"may be any of {names}: no const, enum or required property of these shows which one")
        reasons = "; ".join(f"{each.name}: {_against(each, values, written)}" for each in self.members)
        raise Undecided(f"is no member of the choice ({reasons})")


def _differs(member: Member, values: Mapping[str, str]) -> list[str]:
    """Properties whose values are not the member's."""
    return [name for name, allowed in member.values.items() if name in values and values[name] not in allowed]


def _against(member: Member, values: Mapping[str, str], written: Mapping[str, bytes]) -> str:
    if differing := _differs(member, values):
        return f"{differing[0]} is {values[differing[0]][:_SHOWN]}"
    if missing := sorted(member.required - written.keys()):
        return f"{missing[0]} is missing"
    return f"{min(member.excluded & written.keys())} is not allowed"


def canonical(written: bytes | str) -> str:
    """A sound JSON value's text, the same for equal values: of `1` and `1.0`, of a letter and its escape."""
    try:
        return canonical_value(json.loads(written))
    except ValueError:  # a number of thousands of digits
        return written if isinstance(written, str) else written.decode()


def canonical_value(value: Any) -> str:
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value, sort_keys=True)
