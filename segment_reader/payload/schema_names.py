"""Prefixes of schemas' names in plans, routes and errors, where an id alone is not enough.

Loads no numpy: job files are checked with it.
"""

from __future__ import annotations

from typing import Final, Literal

GLOBAL_ID: Final = "global/"
"""Prefix of a global id in Apicurio, `global/7`: other ids are those of its API in Confluent's form."""

CONTENT_ID: Final = "content/"
"""Prefix of a content id in Apicurio, `content/7`, if the job file says which kind of ids serializers wrote."""


def without_kind(name: str) -> str:
    """`7` of `global/7` and `content/7`; other names as they are."""
    return name.removeprefix(GLOBAL_ID).removeprefix(CONTENT_ID)


def kind_of(schema: int | str) -> Literal["content", "global"] | None:
    """The kind of an id in Apicurio; None for other names."""
    if isinstance(schema, int):
        return None
    return "global" if schema.startswith(GLOBAL_ID) else "content" if schema.startswith(CONTENT_ID) else None


def id_of(schema: int | str) -> int | None:
    """The number that a frame or header has for a schema; None of a GUID."""
    if isinstance(schema, int):
        return schema
    number = without_kind(schema)
    return None if number == schema else int(number)
