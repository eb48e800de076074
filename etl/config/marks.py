"""What a change of a job file's field means for runs: each field says whether it decides which rows land where.

    topics:       HashedUnordered[Topics | None]     part of the configuration's hash
    on_gap:       NotHashed[Literal[...]]            not part of it: an unfinished run goes on when it has changed

A section's mark covers all that is inside of it where it is `NotHashed`; inside a section that decides rows each field
has a mark of its own. The configuration's hash is made from these marks and from nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kseg.etl.config.values import fields_by_key, models_in

T = TypeVar("T")


class Mark(Enum):
    """How a field takes part in the configuration's hash."""

    DECIDES_ROWS = "always part of the hash"
    HASHED_UNORDERED = "part of the hash; its values are sorted"
    DECIDES_ROWS_IF_GIVEN = "part of the hash unless it has its default"
    NOT_HASHED = "not part of the hash"


DecidesRows = Annotated[T, Mark.DECIDES_ROWS]
"""Hashed: the field decides which rows land where."""

HashedUnordered = Annotated[T, Mark.HASHED_UNORDERED]
"""Hashed with sorted values: a list whose order has no meaning."""

DecidesRowsIfGiven = Annotated[T, Mark.DECIDES_ROWS_IF_GIVEN]
"""Hashed unless it has its default: a field that 0.1.0 did not have. Job files without it keep their hash."""

NotHashed = Annotated[T, Mark.NOT_HASHED]
"""Not hashed: secrets, locations, task sizes, consents, settings used only before planning."""


def mark_of(field: FieldInfo) -> Mark | None:
    """The field's mark; None where it has none. Raises ValueError for more than one."""
    marks = [item for item in field.metadata if isinstance(item, Mark)]
    if len(marks) > 1:
        raise ValueError(f"more than one mark: {marks}")
    return marks[0] if marks else None


def config_hash(job: BaseModel) -> str:
    """sha256 over the JSON of all fields that decide rows, as 64 hex digits."""
    decisive = {name for name, field in type(job).model_fields.items() if mark_of(field) is not Mark.NOT_HASHED}
    dumped = job.model_dump(mode="json", include=decisive)
    text = json.dumps(_decisive(job, dumped), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _decisive(value: Any, dumped: Any) -> Any:
    """What of a dumped value is hashed. value: the same before it was dumped."""
    if isinstance(value, BaseModel):
        return dict(_decisive_fields(value, dumped))
    if isinstance(value, dict):
        return {key: _decisive(part, dumped[key]) for part, key in zip(value.values(), dumped, strict=True)}
    if isinstance(value, tuple | list):
        return [_decisive(part, of_part) for part, of_part in zip(value, dumped, strict=True)]
    return dumped


def _decisive_fields(section: BaseModel, dumped: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, field in type(section).model_fields.items():
        value, mark = getattr(section, name), mark_of(field)
        if mark is None:
            raise ValueError(f"{type(section).__name__}.{name} has no mark")
        if mark is Mark.NOT_HASHED:
            continue
        if mark is Mark.DECIDES_ROWS_IF_GIVEN and value == field.get_default(call_default_factory=True):
            continue
        found = _decisive(value, dumped[name])
        yield name, sorted(found) if mark is Mark.HASHED_UNORDERED and found is not None else found


def marks_below(model: type[BaseModel], place: str = "") -> Iterator[tuple[str, Mark | None]]:
    """Every field of a model by its place (`source.topics`, `transform[].sql`), with the mark that holds for it."""
    for name, field in fields_by_key(model).items():
        mark = mark_of(field)
        here = f"{place}{name}"
        yield here, mark
        between = {"transform": "[].", "partition_by": "[].", "routes": ".*."}.get(name, ".")
        for inner in models_in(field.annotation):
            for below, own in marks_below(inner, here + between):
                yield below, mark if mark is Mark.NOT_HASHED else own
