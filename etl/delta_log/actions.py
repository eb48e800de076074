"""Actions of a Delta log as frozen values, out of JSON lines and of rows of checkpoints.

    {"add": {"path": "part-0.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": true}}

(Delta protocol, "Actions".) A class has the fields that are used. Others are not looked at, so a value that another
writer got wrong there stops nobody; and neither are kinds of actions that nobody here uses (`cdc`) or that the protocol
does not name. A field's JSON name is its own in camel case. Absent and null are the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar, cast
from urllib.parse import unquote

A = TypeVar("A", bound="Action")

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class MalformedAction(ValueError):
    """An action is not as the protocol says: a field is missing, or is of another type."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(2**63) <= value < 2**63


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _is(check: Callable[[Any], bool], default: Any = MISSING) -> Any:
    """A field of an action."""
    metadata = {"check": check}
    if isinstance(default, Mapping):  # one for all, since nobody can change it
        return field(default_factory=lambda: default, metadata=metadata)
    return field(default=default, metadata=metadata)


class _Field(NamedTuple):
    attribute: str
    check: Callable[[Any], bool]
    required: bool


@cache
def _fields(kind: str) -> Mapping[str, _Field]:
    """The fields of a kind of actions by their JSON names."""
    found = {}
    for one in fields(KINDS[kind]):
        if "check" in one.metadata:
            first, *more = one.name.split("_")
            key = first + "".join(word.capitalize() for word in more)
            required = one.default is MISSING and one.default_factory is MISSING
            found[key] = _Field(one.name, one.metadata["check"], required)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action. KIND: its key in a line."""

    KIND: ClassVar[str] = ""

    @classmethod
    def of(cls, body: Mapping[str, Any]) -> Self:
        """From the value of a line's key. Raises MalformedAction."""
        if not isinstance(body, Mapping):
            raise MalformedAction(f"{cls.KIND} is no object")
        named = _fields(cls.KIND)
        values: dict[str, Any] = {}
        for key, value in body.items():
            if value is None or (one := named.get(key)) is None:
                continue
            if not one.check(value):
                raise MalformedAction(f"{cls.KIND}.{key} has a value of another type than the protocol says")
            values[one.attribute] = tuple(value) if isinstance(value, list) else value
        if missing := [key for key, one in named.items() if one.required and one.attribute not in values]:
            raise MalformedAction(f"{cls.KIND} has no {', '.join(missing)}")
        return cls(**values)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableProtocol(Action):
    """Versions and features that readers and writers must know ("Protocol Evolution")."""

    KIND = "protocol"
    min_reader_version: int = _is(_is_integer)
    min_writer_version: int = _is(_is_integer)
    reader_features: Sequence[str] | None = _is(_is_texts, None)
    writer_features: Sequence[str] | None = _is(_is_texts, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMetadata(Action):
    """A table's id and schema ("Change Metadata"). schema_string: JSON."""

    KIND = "metaData"
    id: str = _is(_is_text)
    schema_string: str = _is(_is_text)

    @property
    def schema(self) -> Mapping[str, Any]:
        """The schema as JSON. It is not looked at before. Raises MalformedAction."""
        try:
            found = json.loads(self.schema_string)
        except (ValueError, RecursionError) as error:
            raise MalformedAction(f"metaData.schemaString is no JSON: {error}") from error
        if not _is_struct(found):
            raise MalformedAction("metaData.schemaString is no struct")
        return cast(Mapping[str, Any], found)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileAction(Action):
    """A logical file: a data file, and the deletion vector that hides some of its rows, if it has one.

    path: as the log has it, a URI (encoded), relative to the table or absolute. deletion_vector: its descriptor.
    """

    path: str = _is(_is_text)
    deletion_vector: Mapping[str, Any] | None = _is(_is_object, None)

    @property
    def key(self) -> tuple[str, str | None]:
        """What tells logical files apart ("Action Reconciliation")."""
        return self.path, None if self.deletion_vector is None else unique_id(self.deletion_vector)

    @property
    def deleted_rows(self) -> int:
        """Rows that the deletion vector hides."""
        return 0 if self.deletion_vector is None else int(self.deletion_vector["cardinality"])


@dataclass(frozen=True, slots=True, kw_only=True)
class AddFile(FileAction):
    """("Add File and Remove File".) size: bytes. stats: JSON."""

    KIND = "add"
    size: int = _is(_is_integer)
    stats: str | None = _is(_is_text, None)

    @property
    def stored_rows(self) -> int | None:
        """Rows of the data file by its statistics, hidden ones included; None: not known."""
        return rows_in(self.stats)

    @property
    def rows(self) -> int | None:
        """Rows that a reader sees, by the statistics; None: not known."""
        return None if (stored := self.stored_rows) is None else stored - self.deleted_rows


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveFile(FileAction):
    """A tombstone."""

    KIND = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class AppTransaction(Action):
    """The version that an application has reached ("Transaction Identifiers")."""

    KIND = "txn"
    app_id: str = _is(_is_text)
    version: int = _is(_is_integer)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainMetadata(Action):
    """The configuration of a domain ("Domain Metadata"). removed: whether the domain is deleted."""

    KIND = "domainMetadata"
    domain: str = _is(_is_text)
    configuration: str = _is(_is_text, "")
    removed: bool = _is(_is_flag, False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitInfo(Action):
    """The author and content of a commit ("Commit Provenance Information"). content: any JSON; empty if no object."""

    KIND = "commitInfo"
    content: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @classmethod
    def of(cls, body: Any) -> Self:
        """From the value of a line's key, of which none is wrong."""
        return cls(content=body) if isinstance(body, dict) else cls()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar(Action):
    """A file with a checkpoint's file actions ("Sidecar File Information")."""

    KIND = "sidecar"
    path: str = _is(_is_text)
    size_in_bytes: int = _is(_is_integer)

    @property
    def file(self) -> str:
        """Its name in the log's folder: sidecars lie in one folder there, whatever the path says before the name."""
        return f"_sidecars/{unquote(self.path).rpartition('/')[2]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMetadata(Action):
    """("Checkpoint Metadata".)"""

    KIND = "checkpointMetadata"
    version: int = _is(_is_integer)


KINDS: Final[Mapping[str, type[Action]]] = {
    kind.KIND: kind
    for kind in (
        TableProtocol,
        TableMetadata,
        AddFile,
        RemoveFile,
        AppTransaction,
        DomainMetadata,
        CommitInfo,
        Sidecar,
        CheckpointMetadata,
    )
}


def unique_id(descriptor: Mapping[str, Any]) -> str:
    """Tells a file's deletion vectors apart ("Deletion Vectors", "Derived Fields"). Raises MalformedAction."""
    kind, place, offset = (descriptor.get(name) for name in ("storageType", "pathOrInlineDv", "offset"))
    if not _is_text(kind) or not _is_text(place) or not _is_integer(descriptor.get("cardinality")):
        raise MalformedAction("deletionVector has no storageType, pathOrInlineDv or cardinality")
    if offset is not None and not _is_integer(offset):
        raise MalformedAction("deletionVector.offset has a value of another type than the protocol says")
    return f"{kind}{place}" if offset is None else f"{kind}{place}@{offset}"


def _is_struct(kind: Any) -> bool:
    """Whether this is a struct of named columns with types, all the way down ("Schema Serialization Format")."""
    if not isinstance(kind, dict) or not isinstance(columns := kind.get("fields"), list):
        return False
    return all(
        isinstance(one, dict) and _is_text(one.get("name")) and _is_type(one.get("type")) for one in columns
    ) and all(isinstance(one.get("metadata") or {}, dict) for one in columns)


def _is_type(kind: Any) -> bool:
    if not isinstance(kind, dict):
        return _is_text(kind)
    if "fields" in kind:
        return _is_struct(kind)
    return all(_is_type(kind[key]) for key in ("elementType", "keyType", "valueType") if key in kind)


def rows_in(stats: str | None) -> int | None:
    """The number of rows in a file's statistics; None where they do not have it, or are not JSON."""
    if not stats:
        return None
    try:
        found = json.loads(stats)
    except (ValueError, RecursionError):
        return None
    rows = found.get("numRecords") if isinstance(found, dict) else None
    return rows if _is_integer(rows) else None


def parse_line(line: str | bytes) -> Iterator[Action]:
    """The actions of one line that the protocol names; usually one. Raises MalformedAction."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedAction(f"no JSON: {error}") from error
    if not isinstance(found, dict):
        raise MalformedAction("no object")
    for key, body in found.items():
        if body is not None and (kind := KINDS.get(key)) is not None:
            yield checked(kind.of(body))


def checked(action: A) -> A:
    """The action, whose parts that are read later are as the protocol says, too. Raises MalformedAction."""
    if isinstance(action, FileAction):
        try:
            "".join(filter(None, action.key)).encode()
        except UnicodeEncodeError as error:  # half of a surrogate pair, which JSON can express and no name has
            raise MalformedAction(f"{action.KIND} has a path or deletion vector that is no text") from error
    return action
