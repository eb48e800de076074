"""What `kseg repair --finish` takes from today's job file, and what from the run's plan: each field says which.

    on_data_loss: NotHashed[AtContinuation[Literal[…]]]   as the job file says when the run is finished
    untimed:      NotHashed[AsPlanned[Literal[…]]]        as the run was planned
    topics:       DecidesRows[…]                          as the run was planned, as everything that decides rows

A decision about a section covers all that is inside of it. A section without one has decisions inside (`decode`,
`sink.dead_letters`). What the remedies of refusals tell users to set has to be `AtContinuation`: where a run has landed
rows and its job file has changed since, no other command than `--finish` completes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kseg.etl.config.marks import Mark, mark_of
from kseg.etl.config.values import fields_by_key, models_in

T = TypeVar("T")
M = TypeVar("M", bound=BaseModel)


class Continuation(Enum):
    """The source from which `--finish` takes a field."""

    AS_PLANNED = "the run's plan"
    AT_CONTINUATION = "today's job file"


AsPlanned = Annotated[T, Continuation.AS_PLANNED]
"""Which rows are read, what becomes of them, and in whose name offsets are committed."""

AtContinuation = Annotated[T, Continuation.AT_CONTINUATION]
"""Connections, how work is cut and reported, limits, and consents that a refused run may be waiting for."""


def continuation_of(field: FieldInfo) -> Continuation | None:
    """The field's decision; None where those of the sections inside of it hold, or where there is none.

    Raises:
        ValueError: it decides rows, and would be taken from today's job file; or it has two decisions.
    """
    own = [item for item in field.metadata if isinstance(item, Continuation)]
    decides = mark_of(field) not in (None, Mark.NOT_HASHED)
    if len(own) > 1 or (decides and Continuation.AT_CONTINUATION in own):
        raise ValueError(f"contradicting decisions: {mark_of(field)}, {own}")
    if own:
        return own[0]
    return Continuation.AS_PLANNED if decides and not any(models_in(field.annotation)) else None


def continued(planned: M, today: M) -> M:
    """A section as it was planned, with today's values of the fields that are `AtContinuation`."""
    changes: dict[str, Any] = {}
    for name, field in type(planned).model_fields.items():
        before, now, decision = getattr(planned, name), getattr(today, name), continuation_of(field)
        if decision is Continuation.AT_CONTINUATION:
            changes[name] = now
        elif decision is None:
            optional = mark_of(field) is Mark.NOT_HASHED
            changes[name] = _continued_part(before, now, optional=optional)
    return planned.model_copy(update=changes)


def _continued_part(planned: Any, today: Any, *, optional: bool) -> Any:
    """optional: a section that one of both does not have is as if it had no keys there."""
    if optional and planned is None and isinstance(today, BaseModel):
        planned = type(today)()
    if optional and today is None and isinstance(planned, BaseModel):
        today = type(planned)()
    if isinstance(planned, BaseModel) and type(planned) is type(today):
        return continued(planned, today)
    if isinstance(planned, Mapping) and isinstance(today, Mapping):
        return {key: _continued_part(part, today.get(key), optional=optional) for key, part in planned.items()}
    return planned


def continuations_below(model: type[BaseModel], place: str = "") -> Iterator[tuple[str, Continuation | None]]:
    """Every field of a model by its place (`source.topics`), with the decision that holds for it; None: it has none.
    A field whose decision covers what is inside of it comes alone."""
    for name, field in fields_by_key(model).items():
        decision = continuation_of(field)
        inside = [] if decision is not None else list(models_in(field.annotation))
        if not inside:
            yield f"{place}{name}", decision
        for inner in inside:
            yield from continuations_below(inner, f"{place}{name}.")
