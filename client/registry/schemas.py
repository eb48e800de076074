"""Schemas as a registry has them."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal

SCHEMA_TYPES = ("AVRO", "JSON", "PROTOBUF")
ApicurioKind = Literal["global", "content"]
APICURIO_KINDS: Final[tuple[ApicurioKind, ...]] = ("global", "content")


@dataclass(frozen=True, slots=True)
class ApicurioId:
    """A schema's id in Apicurio, of a kind that is known: that of one version, or that of all with its content."""

    kind: ApicurioKind
    number: int


SchemaId = int | str | ApicurioId
"""What names a schema in a registry: its id, its GUID as text, or its id in Apicurio."""


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema uses: by which name, and the subject and version where it is registered."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text. `type` is one of SCHEMA_TYPES; `guid` where the registry has such.

    context: where it was requested, as `context_of`; its references' subjects are in it unless they name another.
    """

    text: str
    type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    id: int | None = None
    guid: str | None = None
    context: str = field(default="", compare=False)

    @property
    def hash(self) -> str:
        """SHA-256 of type, text and references, in hexadecimal: the same schema gives it in every registry."""
        parts = [self.type, self.text, *(f"{one.name}\0{one.subject}\0{one.version}" for one in self.references)]
        return hashlib.sha256("\0\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class Version:
    """A schema as one version of a subject."""

    subject: str
    version: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Resolved:
    """A schema with everything that it references, directly or not: the texts by the references' names.

    Referenced schemas come before those that use them, so that they can be parsed in this order.
    """

    schema: Schema
    references: tuple[tuple[str, Schema], ...] = ()


_CONTEXT = re.compile(r":\.[^:]*:")


def context_of(subject: str) -> str:
    """`:.prod:` of the subject `:.prod:orders-value`; "" for one of the default context.

    https://docs.confluent.io/platform/current/schema-registry/multidc.html (schema contexts)
    """
    found = _CONTEXT.match(subject)
    return found[0] if found is not None and found[0] != ":.:" else ""


_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


def is_guid(text: str) -> bool:
    return _GUID.fullmatch(text) is not None


def schema_of(document: dict[str, Any], schema_id: int | None = None, context: str = "") -> Schema:
    """A schema from the registry's JSON. Raises ValueError where it is none.

    https://docs.confluent.io/platform/current/schema-registry/develop/api.html#schemas
    """
    text, type_ = document.get("schema"), document.get("schemaType") or "AVRO"
    number, guid = document.get("id", schema_id), document.get("guid")
    if not isinstance(text, str) or type_ not in SCHEMA_TYPES:
        raise ValueError("it has no schema of a known type")
    if isinstance(number, bool) or not isinstance(number, int | None):
        raise ValueError("its id is not a number")
    references = tuple(_reference(one) for one in _list(document.get("references")))
    return Schema(text, type_, references, number, guid if isinstance(guid, str) else None, context)


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError("its references are no list")
    return value


def _reference(document: Any) -> Reference:
    if isinstance(document, dict):
        name, subject, version = (document.get(key) for key in ("name", "subject", "version"))
        if isinstance(name, str) and isinstance(subject, str) and isinstance(version, int):
            return Reference(name, subject, version)
    raise ValueError("a reference lacks its name, subject or version")
