"""Typed errors as JSON and back: the class's name, its attributes, its notes, what it was raised from.

    {"class": "kseg.etl.source.errors.OffsetsLost", "text": "offsets 5 to 8 cannot be read …", "args": […],
     "fields": {"first": 5, …}, "notes": ["In the worker: …"], "cause": {…} or null}

The writer of such a document decides only which of this project's error classes is made, and with which plain values:
classes come from the modules listed here and from no other, and nothing of them is called but `__new__`. A document
that names another class, or cannot be read, becomes a `WorkerError` with its text.

Values that JSON does not have are objects with one key, their type. One of a type that is not listed travels as text.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from numbers import Integral
from typing import Any, Final

from kseg.client.errors import KafkaError
from kseg.etl.errors import KsegError
from kseg.etl.source.errors import OutOfMemoryError, WorkerError
from kseg.segment_reader.errors import RecordFormatError
from kseg.segment_reader.log.errors import LogFileError

Typed = KsegError | KafkaError | RecordFormatError | LogFileError
TYPED: Final = (KsegError, KafkaError, RecordFormatError, LogFileError)

ERRORS: Final = frozenset(
    {
        "kseg.client.errors",
        "kseg.client.registry.errors",
        "kseg.etl.errors",
        "kseg.etl.decoding.errors",
        "kseg.etl.delta_log.errors",
        "kseg.etl.internal_topics.errors",
        "kseg.etl.kafka_writer.attempts",
        "kseg.etl.kafka_writer.rows",
        "kseg.etl.ledger.errors",
        "kseg.etl.planning.interval",
        "kseg.etl.source.errors",
        "kseg.etl.spark.spark_errors",
        "kseg.etl.tables.errors",
        "kseg.segment_reader.errors",
        "kseg.segment_reader.log.errors",
        "kseg.segment_reader.log.scan.timestamps",
    }
)
"""The modules whose error classes travel as what they are; an error of another class as its nearest base among them."""

VALUES: Final = {
    "ErrorCode": "kseg.client.protocol.error_codes",
    "UnknownErrorCode": "kseg.client.protocol.error_codes",
    "Reaction": "kseg.client.protocol.error_policy",
    "Permission": "kseg.client.protocol.permissions",
    "AclOperation": "kseg.client.protocol.enums",
    "ResourceType": "kseg.client.protocol.enums",
    "TopicPartition": "kseg.client.protocol.partition",
    "ConfigFault": "kseg.client.errors",
    "Diagnostic": "kseg.etl.errors",
    "BatchAddress": "kseg.segment_reader.errors",
}
"""Types of attributes that are neither JSON's nor errors, and their modules: enums, named tuples, data classes."""

_MOST_CAUSES: Final = 5


def error_document(error: Typed, *, causes: int = _MOST_CAUSES) -> dict[str, Any]:
    """The error as JSON. causes: how many errors that it was raised from are carried along."""
    kind: Any = next(cls for cls in type(error).__mro__ if _registered(cls))
    values = dict(error.__dict__)
    notes = [str(note) for note in values.pop("__notes__", ())]
    if error.retriable != kind.retriable:
        values.setdefault("retriable", error.retriable)
    cause = error.__cause__
    return {
        "class": f"{kind.__module__}.{kind.__name__}",
        "text": str(error),
        "args": [_encoded(value) for value in error.args],
        "fields": {name: _encoded(value) for name, value in values.items()},
        "notes": notes,
        "cause": error_document(typed(cause), causes=causes - 1) if cause is not None and causes else None,
    }


def typed(error: BaseException) -> Typed:
    """The error, or one that is none of ours as a `WorkerError` or an `OutOfMemoryError`."""
    if isinstance(error, TYPED):
        return error
    if isinstance(error, MemoryError):
        return OutOfMemoryError("in a worker", error)
    return WorkerError(f"{type(error).__name__}: {error}")


def error_of_document(document: Any) -> Typed:
    """The error that a document describes; a `WorkerError` where it describes none of ours."""
    try:
        return _error(document)
    except Exception:  # whatever is wrong with it: the document may come from anywhere
        text = document.get("text") if isinstance(document, dict) else None
        kind = document.get("class") if isinstance(document, dict) else None
        name = f"{kind.rpartition('.')[2]}: " if isinstance(kind, str) else ""
        return WorkerError(name + text if isinstance(text, str) else "a worker's error that cannot be read")


def _error(document: Mapping[str, Any]) -> Typed:
    cls = _error_class(document["class"])
    values = {name: _decoded(value) for name, value in document["fields"].items()}
    for name, value in values.items():
        _check_attribute(cls, name, value)
    error = cls.__new__(cls)
    error.args = tuple(_decoded(value) for value in document["args"])
    error.__dict__.update(values)
    for note in document["notes"]:
        error.add_note(note)  # raises for what is not text
    if document["cause"] is not None:
        error.__cause__ = error_of_document(document["cause"])
    # Attributes of other types than its class gives them are found out here, and not where it is shown.
    str(error)
    if isinstance(error, KsegError):
        error.to_json()
    return error


def _check_attribute(cls: type[Typed], name: str, value: object) -> None:
    """Raises ValueError for a name that is not an attribute's of an instance."""
    inherited = getattr(cls, name, None)
    hidden = name.startswith("_") or callable(inherited) or isinstance(inherited, property)
    if hidden or (inherited is not None and type(value) is not type(inherited)):
        raise ValueError(f"{cls.__name__} has no attribute {name} of this type")


def _error_class(name: str) -> type[Typed]:
    module, _, attribute = name.rpartition(".")
    found = getattr(importlib.import_module(module), attribute) if module in ERRORS else None
    if not (isinstance(found, type) and _registered(found) and found.__name__ == attribute):
        raise ValueError(f"{name} is not an error of ours")
    return found


def _registered(cls: type) -> bool:
    return issubclass(cls, TYPED) and cls.__module__ in ERRORS


def _encoded(value: object) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if VALUES.get(kind.__name__) == kind.__module__:
        return {kind.__name__: [_encoded(part) for part in _parts(value)]}
    if isinstance(value, tuple):
        return {"tuple": [_encoded(part) for part in value]}
    if isinstance(value, list):
        return [_encoded(part) for part in value]
    if isinstance(value, Mapping):
        return {"map": [[_encoded(key), _encoded(part)] for key, part in value.items()]}
    if isinstance(value, datetime):
        return {"time": value.isoformat()}
    if isinstance(value, TYPED):
        return {"error": error_document(value)}
    return int(value) if isinstance(value, Integral) else str(value)


def _parts(value: Any) -> list[Any]:
    """The arguments with which its class makes an equal value."""
    if isinstance(value, Enum):
        return [value.value]
    if is_dataclass(value):
        return [getattr(value, part.name) for part in fields(value)]
    return list(value) if isinstance(value, tuple) else [int(value)]


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "tuple":
        return tuple(_decoded(part) for part in content)
    if kind == "map":
        return {_decoded(key): _decoded(part) for key, part in content}
    if kind == "time":
        return datetime.fromisoformat(content)
    if kind == "float":
        return float(content)
    if kind == "error":
        return _error(content)
    return getattr(importlib.import_module(VALUES[kind]), kind)(*map(_decoded, content))
