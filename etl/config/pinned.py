"""The job file as a plan holds it: JSON in the order of the file, which is the order of its columns in tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def as_text(document: Mapping[str, Any]) -> str:
    """A document (`Job.pinned`) as a plan's `pinned_config`."""
    return json.dumps(document, separators=(",", ":"))


def pinned_document(text: str, today: Mapping[str, Any]) -> dict[str, Any]:
    """The document of a plan's `pinned_config`.

    today: the job file's document of today. Earlier releases wrote keys in alphabetical order, with blanks between
    them; the order of the columns in a struct, for one, is then taken from today's file, as far as it has them.
    """
    document: dict[str, Any] = json.loads(text)
    in_alphabetical_order = text == json.dumps(document, sort_keys=True)
    return _in_order_of(today, document) if in_alphabetical_order else document


def _in_order_of(today: Any, planned: Any) -> Any:
    if isinstance(today, Mapping) and isinstance(planned, Mapping):
        names = [name for name in today if name in planned]
        names += [name for name in planned if name not in today]
        return {name: _in_order_of(today.get(name), planned[name]) for name in names}
    if isinstance(today, list) and isinstance(planned, list) and len(today) == len(planned):
        return [_in_order_of(*pair) for pair in zip(today, planned, strict=True)]
    return planned
