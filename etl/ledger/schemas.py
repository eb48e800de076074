"""Schemas of a registry in the ledger: what rows are decoded with, whatever the registry says later.

    text        a registry's schema, once, by its hash
    lineage     of a table's columns: versions of the reader's schema, each with the fields of the one before and more
    pinned      by a run: the version of the lineage, and the schemas of all ids that its records may name

A lineage is called by its place in the job file below `decode`: `value`. Where kinds of records have columns of their
own, each has a lineage `value:shop.Order` with its reader's schema, and `value` has the schemas of all kinds alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kseg.etl.ledger.events import Event
from kseg.etl.ledger.values import PinnedSchemas, Strict, left_out


@dataclass(frozen=True, slots=True)
class SchemaText(Strict):
    """A schema as the registry has it; of Protobuf its descriptors in base64.

    references: texts of what it uses, each after those that it uses itself. named: the same by name, for formats that
    have such names. unusable: why the job's format can read no record of it ("is of type JSON, …"); its text is the
    registry's then, and nothing that it uses is kept.
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
    """What is new in a lineage. reader: its next version's text, None where it stays at `version`. subjects: ids by
    subject and version. writers: as in PinnedSchemas; of another registry than before, they take all others' place."""

    registry: str
    version: int
    reader: str | None = None
    writers: dict[str, str] = field(default_factory=dict)
    subjects: dict[str, dict[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lineage(Strict):
    """readers: texts of all versions. writers, subjects: what is known of the registry, as in LineageChange."""

    registry: str
    readers: tuple[str, ...] = ()
    writers: dict[str, str] = field(default_factory=dict)
    subjects: dict[str, dict[str, str]] = field(default_factory=dict)

    def after(self, change: LineageChange) -> Lineage:
        """Raises ValueError where the change does not follow this version."""
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
    """Schemas that rows are decoded with from here on.

    texts: those that the ledger did not have, by hash. lineages: what is new in them. pinned: of a run whose records
    named schemas that its plan did not know: what it decodes with in place of what was planned.
    """

    KIND = "schemas_added"

    texts: dict[str, SchemaText] = field(default_factory=dict)
    lineages: dict[str, LineageChange] = field(default_factory=dict)
    pinned: dict[str, PinnedSchemas] = field(default_factory=dict)
