"""Schemas of a registry in the ledger: rows are decoded with these, even if the registry changes later.

    text        a registry's schema, stored once, by its hash
    lineage     versions of the reader's schema of a table's columns; each version adds fields to the one before
    pinned      by a run: the version of the lineage, and the schemas of all ids that its records may contain

The name of a lineage is its path in the job file below `decode`, such as `value`. If kinds of records have their own
columns, each kind has a lineage such as `value:shop.Order` with its reader's schema, and `value` has only the writers'
schemas of all kinds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kseg.etl.ledger.events import Event
from kseg.etl.ledger.json_form import Strict, left_out
from kseg.etl.ledger.values import PinnedSchemas


@dataclass(frozen=True, slots=True)
class SchemaText(Strict):
    """A schema as it is in the registry; for Protobuf its descriptors in base64.

    references: the texts of referenced schemas, each after those that it references itself. named: the same by name,
    for formats with named references. unusable: why the job's format cannot read its records ("is of type JSON, …");
    then the text is the registry's, without references.
    """

    text: str
    references: tuple[str, ...] = ()
    named: dict[str, str] = field(default_factory=dict)
    unusable: str | None = None

    _to_json = left_out("named", "unusable")

    @property
    def uses(self) -> tuple[str, ...] | dict[str, str]:
        return self.named or self.references

    @property
    def hash(self) -> str:
        """SHA-256 of all texts, in hexadecimal."""
        named = (part for name in sorted(self.named) for part in (name, self.named[name]))
        unusable = (self.unusable,) if self.unusable else ()
        texts = (self.text, *self.references, *named, *unusable)
        return hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()


@dataclass(frozen=True, slots=True)
class LineageChange(Strict):
    """A change of a lineage. version: of the reader's schema after the change. reader: the text of this version; None
    if it has not changed. subjects: schema ids by subject and version. writers: as in PinnedSchemas; those of another
    registry replace all others."""

    registry: str
    version: int
    reader: str | None = None
    writers: dict[str, str] = field(default_factory=dict)
    subjects: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lineage(Strict):
    """readers: texts of all versions. writers, subjects: those of the registry that are known, as in LineageChange."""

    registry: str
    readers: tuple[str, ...] = ()
    writers: dict[str, str] = field(default_factory=dict)
    subjects: dict[str, dict[str, str]] = field(default_factory=dict)

    def after(self, change: LineageChange) -> Lineage:
        """The lineage after a change. Raises ValueError if the change does not follow this version."""
        readers = self.readers if change.reader is None else (*self.readers, change.reader)
        if change.version != len(readers):
            raise ValueError(f"version {change.version} of its reader's schema cannot follow {len(self.readers)}")
        if change.registry != self.registry:
            return Lineage(change.registry, readers, change.writers, change.subjects)
        subjects = dict(self.subjects)
        for subject, versions in change.subjects.items():
            subjects[subject] = {**subjects.get(subject, {}), **versions}
        return replace(self, readers=readers, writers={**self.writers, **change.writers}, subjects=subjects)


def changed_lineages(known: Mapping[str, Lineage], changes: Mapping[str, LineageChange]) -> dict[str, Lineage]:
    """All lineages after these changes. Raises ValueError as `Lineage.after`."""
    made = {name: known.get(name, Lineage(change.registry)).after(change) for name, change in changes.items()}
    return {**known, **made}


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemasAdded(Event):
    """Schemas with which rows are decoded from now on.

    texts: new schemas, by hash. lineages: their changes. pinned: for a run whose records have schema ids that its plan
    did not know: the schemas with which it decodes instead of the planned ones.
    """

    KIND = "schemas_added"

    texts: dict[str, SchemaText] = field(default_factory=dict)
    lineages: dict[str, LineageChange] = field(default_factory=dict)
    pinned: dict[str, PinnedSchemas] = field(default_factory=dict)
