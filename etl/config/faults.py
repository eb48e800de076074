"""Validation errors as faults: the path in the file, a message, a remedy, and a suggestion for a misspelt key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from kseg.client.protocol.suggestion import did_you_mean
from kseg.etl.config.document import PathKey
from kseg.etl.config.values import FAULT, fields_by_key, models_in

_SHOWN = 60

_EXPECTED = {
    "string_type": ("text", "put it into quotes"),
    "string_sub_type": ("text", "put it into quotes"),
    "int_type": ("a whole number", "write only digits, as in 1000000"),
    "int_from_float": ("a whole number", "write only digits, as in 1000000"),
    "bool_type": ("true or false", "write true or false, without quotes"),
    "dict_type": ("a mapping", "write `key: value` pairs"),
    "mapping_type": ("a mapping", "write `key: value` pairs"),
    "model_type": ("a mapping", "write `key: value` pairs"),
    "model_attributes_type": ("a mapping", "write `key: value` pairs"),
    "tuple_type": ("a list", "write it in brackets: [a, b]"),
    "list_type": ("a list", "write it in brackets: [a, b]"),
    "time_delta_type": ("a duration", "as in 30s, 2m or 1h30m"),
    "datetime_type": ("a time", "as in 2026-01-01T00:00:00Z"),
}

_WHERE_TEXT = "write one text"
_WHERE_LIST = "begin each entry with `- `"

_SECTIONS = {
    "kafka": "write `kafka: {bootstrap.servers: host:9092}`",
    "source": "write `source: {topics: [orders]}`",
    "sink": "write `sink: {path: ./lake/orders}`",
}

_MISSING = {
    "version": "add `version: 1`",
    "name": "add a name, as in `name: orders`: it identifies runs and ledger entries",
    "source": "add `source: {topics: [orders]}`",
    "sink": "add `sink: {path: ./lake/orders}`",
    "ledger": "add `ledger: ./lake/_kseg_ledger`: it records what has landed",
    "timestamp": "add a time, as in 2026-01-01T00:00:00Z",
}


class Finding(NamedTuple):
    """A fault before it has a line: where, what, what to do."""

    path: PathKey
    message: str
    remedy: str | None = None


def findings_of(error: ValidationError, model: type[BaseModel], raw: Any) -> list[Finding]:
    """Every error of a validation, in plain words.

    raw: the value as written, references unresolved: it alone may be quoted.
    """
    return [_finding(details, model, raw) for details in error.errors(include_url=False, include_input=True)]


def unknown_key_remedy(word: str, known: Sequence[str]) -> str:
    return did_you_mean(word, known) or f"valid keys: {', '.join(known)}"


def kind_of(value: Any) -> str:
    """A value's kind in YAML's words; never the value itself."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "a mapping"
    return "a list" if isinstance(value, list | tuple) else "of another type"


def _finding(details: ErrorDetails, model: type[BaseModel], raw: Any) -> Finding:
    path, value = _walk(details["loc"], raw)
    name = "the name " if "[key]" in details["loc"] else ""
    kind, context = details["type"], details.get("ctx", {})
    if kind == FAULT:
        return Finding(path, name + str(context["told"]), str(context["remedy"]))
    if kind in ("extra_forbidden", "invalid_key"):
        return Finding(path, "is an unknown key", unknown_key_remedy(str(path[-1]), _siblings(model, details["loc"])))
    if kind == "missing":
        return Finding(path, "is missing", _MISSING.get(str(path[-1]), "add it"))
    if kind == "literal_error":
        return _not_among(path, value, str(context.get("expected", "")), by_time="<bound>" in details["loc"])
    if kind in _EXPECTED:
        expected, remedy = _EXPECTED[kind]
        found = details["input"]
        message = f"{name}is {kind_of(found)} where {expected} is expected"
        return Finding(path, message, _remedy_of_type(expected, path, found) or remedy)
    if kind in ("greater_than_equal", "less_than_equal"):
        low = kind == "greater_than_equal"
        limit = context["ge" if low else "le"]
        return Finding(path, f"{name}is too {'small' if low else 'large'}", f"{limit} or {'more' if low else 'less'}")
    if kind == "string_too_long":
        return Finding(path, f"is longer than {context['max_length']} characters", "shorten it")
    return Finding(path, f"{name}is not valid", None)  # pydantic's own words may quote the value


def _remedy_of_type(expected: str, path: PathKey, found: Any) -> str | None:
    """The remedy for this wrong type; None: that of `_EXPECTED` fits."""
    if expected == "text" and isinstance(found, Mapping | list | tuple):
        return _WHERE_TEXT
    if expected == "a list" and isinstance(found, Mapping):
        return _WHERE_LIST
    if expected == "a mapping" and isinstance(found, str) and len(path) == 1:
        return _SECTIONS.get(str(path[0]))
    return None


def _not_among(path: PathKey, value: Any, expected: str, *, by_time: bool) -> Finding:
    """by_time: of offsets, which may be given by a time as well."""
    choices = [choice.strip("'") for choice in expected.replace(" or ", ", ").split(", ")]
    problem = f"is not {' or '.join(choices)}" if len(choices) < 3 else f"is not one of {', '.join(choices)}"
    remedy = f"write {' or '.join(choices)}" + (" or {timestamp: 2026-01-01T00:00:00Z}" if by_time else "")
    if isinstance(value, str) and len(value) <= _SHOWN and value.isprintable():
        return Finding(path, f"{value!r} {problem}", did_you_mean(value, choices) or remedy)
    return Finding(path, problem, remedy)


def _walk(loc: Sequence[str | int], raw: Any) -> tuple[PathKey, Any]:
    """The path in the file, and the value there. Pydantic's own marks (tags of a union) are dropped."""
    path: list[str | int] = []
    value = raw
    for part in loc:
        if part == "[key]":
            break
        if isinstance(part, str) and part.startswith("<"):
            continue
        if isinstance(value, list | tuple) and isinstance(part, int):
            path.append(part)
            value = value[part] if part < len(value) else None
            continue
        path.append(str(part))
        value = value.get(part) if isinstance(value, Mapping) else None
    return tuple(path), value


def _siblings(model: type[BaseModel], loc: Sequence[str | int]) -> list[str]:
    """The valid keys in place of an unknown one: found by walking the models along the path."""
    known: list[type[BaseModel]] = [model]
    for part in loc[:-1]:
        tagged = [m for m in known if isinstance(part, str) and part.strip("<>") in m.model_fields]
        if tagged and str(part).startswith("<"):
            known = tagged
            continue
        deeper = [m for current in known for m in _models_below(current, part)]
        known = deeper or known
    return list(dict.fromkeys(name for current in known for name in fields_by_key(current)))


def _models_below(model: type[BaseModel], part: str | int) -> list[type[BaseModel]]:
    field = fields_by_key(model).get(str(part))
    return list(models_in(field.annotation)) if field is not None else []
