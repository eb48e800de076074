"""What an environment variable's text is in the place of `${NAME}`: a number, true or false where the key takes one.

    run.max_records: ${MAX}       500 is the number that YAML reads
    source.topics: [${TOPIC}]     500 is a name, which no key of text reads as a number

The models of the job file say what a key takes. A path may lead through several of them, where a section has more than
one form (`decode:`, `starting_offsets:`): each that has the path is one of its kinds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from kseg.etl.config.document import plain_scalar
from kseg.etl.config.values import AlsoWritten, fields_by_key

Kinds = tuple[Any, ...]

_NOT_TEXT: Final = (bool, int, float)


def taken(text: str, kinds: Kinds) -> Any:
    """The text as a key of these kinds takes it: what YAML reads in it without quotes, or the text itself."""
    wanted = tuple(kind for kind in _NOT_TEXT if kind in kinds)
    value = plain_scalar(text) if wanted else text
    return value if isinstance(value, wanted) else text


def below(kinds: Kinds, key: str | int) -> Kinds:
    """The kinds of the value at a key of a mapping, or at an index of a list."""
    return tuple(found for kind in kinds for found in _below(kind, key))


def _below(kind: Any, key: str | int) -> Iterator[Any]:
    origin, args = get_origin(kind), get_args(kind)
    if origin is dict and isinstance(key, str):
        yield from _members(args[1])
    elif origin is tuple and isinstance(key, int):
        at = 0 if args[-1] is Ellipsis else key
        yield from _members(args[at]) if at < len(args) else ()
    elif origin is None and issubclass(kind, BaseModel) and (field := fields_by_key(kind).get(str(key))) is not None:
        yield from _members(field.annotation, field.metadata)


def _members(annotation: Any, marks: Iterable[Any] = ()) -> Iterator[Any]:
    """The forms that a value of this type has: those of a union one by one, of literals their types."""
    yield from (mark.kind for mark in marks if isinstance(mark, AlsoWritten))
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _members(args[0], args[1:])
    elif origin in (Union, UnionType):
        for arg in args:
            yield from _members(arg)
    elif origin is Literal:
        yield from map(type, args)
    else:
        yield annotation
