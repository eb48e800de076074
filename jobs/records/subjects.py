"""The output of `kseg schema`: a subject's versions, the columns that each would give, and whether a new schema
fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from kseg.client.registry.errors import SchemaNotFound, SchemaRegistryError
from kseg.client.registry.registry import SchemaRegistry
from kseg.client.registry.schemas import SCHEMA_TYPES, Resolved, Schema, Version
from kseg.etl.config.job import Job
from kseg.etl.decoding.formats.registry import in_registries
from kseg.etl.decoding.registered import registered_type
from kseg.etl.errors import ConfigurationError, Refused, listed
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.store import Ledger
from kseg.etl.operations.schema_check import (
    SchemaCheck,
    check_against_job,
    check_against_version,
    parts_of,
    subjects_of,
)
from kseg.etl.planning.schemas import accepted
from kseg.segment_reader.payload.ddl import type_text
from kseg.segment_reader.payload.errors import InvalidSchema, PayloadSchemaError

_NO_SCHEMA: Final = 422


@dataclass(frozen=True, slots=True)
class ShownVersion:
    """columns: DDL types by name. problem: why it has no columns."""

    version: Version
    columns: dict[str, str]
    problem: str | None

    def to_json(self) -> dict[str, Any]:
        schema = self.version.schema
        shown: dict[str, Any] = {"version": self.version.version, "id": schema.id, "type": schema.type}
        if schema.references:
            shown["references"] = [f"{one.name} ({one.subject} {one.version})" for one in schema.references]
        return {**shown, "columns": self.columns, "problem": self.problem}


@dataclass(frozen=True, slots=True)
class ShownSubject:
    """versions: those that were asked for. numbers: all that there are; none: there is no such subject."""

    subject: str
    numbers: tuple[int, ...]
    versions: tuple[ShownVersion, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "all_versions": list(self.numbers),
            "versions": [one.to_json() for one in self.versions],
        }

    def for_people(self) -> dict[str, Any]:
        """Tables: the versions, and a line for each column with its type in each version."""
        versions = [
            {key: len(one.columns) if key == "columns" else value for key, value in one.to_json().items() if value}
            for one in self.versions
        ]
        names = dict.fromkeys(name for one in self.versions for name in one.columns)
        columns: list[dict[str, str | None]] = [
            {"column": name, **{f"version {one.version.version}": one.columns.get(name) for one in self.versions}}
            for name in names
        ]
        return {f"{self.subject}: versions": versions, f"{self.subject}: columns": columns}


def shown_subject(registry: SchemaRegistry, subject: str, wanted: int | None, *, every: bool) -> ShownSubject:
    """wanted: a version; None: the newest, or every one.

    Raises:
        ConfigurationError: there is no such subject or version, or the registry rejects who asks.
        SchemaRegistryError: the registry cannot be asked.
    """
    with accepted():
        try:
            numbers = registry.versions(subject)
        except SchemaNotFound:
            numbers = []
        if not numbers:
            raise ConfigurationError.of(
                "SUBJECT", f"the registry {registry.url} has no subject {subject}", _near(registry)
            )
        if wanted is not None and wanted not in numbers:
            message = f"subject {subject} has no version {wanted}"
            raise ConfigurationError.of("--version", message, f"it has {', '.join(map(str, numbers))}")
        chosen = numbers if every else [wanted or numbers[-1]]
        versions = [_shown(registry, registry.version(subject, number)) for number in chosen]
    return ShownSubject(subject, tuple(numbers), tuple(versions))


def _near(registry: SchemaRegistry) -> str:
    """The remedy for a subject that does not exist."""
    try:
        known = registry.subjects()
    except SchemaNotFound:
        return "is it the base of the registry's REST API? Apicurio's ends with /apis/ccompat/v7"
    return f"it has {listed(sorted(known), most=20)}" if known else "it has none"


def _shown(registry: SchemaRegistry, version: Version) -> ShownVersion:
    try:
        return ShownVersion(version, columns_text(registered_type(registry.resolve(version.schema))), None)
    except PayloadSchemaError as error:
        return ShownVersion(version, {}, str(error))


def columns_text(kind: pa.DataType) -> dict[str, str]:
    """DDL types of a record's columns; of a value that is no record, as `value`."""
    if pa.types.is_struct(kind):
        return {child.name: type_text(child.type) for child in kind}
    return {"value": type_text(kind)}


def job_subjects(job: Job) -> list[str]:
    """Raises ConfigurationError where the job decodes with no schemas, or names no topics."""
    found = subjects_of(job)
    if not found:
        if job.source.named_topics is None:
            message = "names no topic, so its subjects are not known"
            raise ConfigurationError.of("source.pattern", message, "kseg schema SUBJECT --table JOB.yaml")
        raise ConfigurationError.of(
            "decode", "has no avro, protobuf or json_schema", "kseg schema SUBJECT --registry URL"
        )
    return found


# --- a new schema


@dataclass(frozen=True, slots=True)
class Candidate:
    """The results of the checks of a new schema. registry: why its compatibility rule refuses it; None: it does not.
    checks: of columns."""

    file: str
    registry: tuple[str, ...] | None
    checks: tuple[SchemaCheck, ...]

    @property
    def fits(self) -> bool:
        return self.registry is None and not any(check.refused for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "fits": self.fits,
            "registry": {"accepted": self.registry is None, "reasons": list(self.registry or ())},
            "columns": [
                {
                    "against": check.against,
                    "fits": not check.refused,
                    "reasons": list(check.refused),
                    "added": dict(check.added),
                    "missing": list(check.missing),
                    "notes": list(check.notes),
                }
                for check in self.checks
            ],
        }

    def for_people(self) -> dict[str, Any]:
        verdicts = [{"compared with": "the registry's compatibility rule", **_verdict(self.registry or ())}]
        verdicts += [{"compared with": check.against, **_verdict(check.refused)} for check in self.checks]
        changes: list[dict[str, str | None]] = [
            {"compared with": check.against, "column": path, "type": kind, "change": "added"}
            for check in self.checks
            for path, kind in check.added
        ]
        changes += [
            {"compared with": check.against, "column": path, "type": None, "change": "null from now on"}
            for check in self.checks
            for path in check.missing
        ]
        notes = [note for check in self.checks for note in check.notes]
        return {"check": verdicts, "changes": changes, "note": notes}


def _verdict(reasons: Sequence[str]) -> dict[str, str]:
    return {"verdict": "refused" if reasons else "fits", "why": "\n".join(reasons)}


def _type_of(file: str) -> str | None:
    """The type of a schema's file by the end of its name; None for one that several formats have."""
    return next((own.type for form, own in in_registries() if form.suffix == Path(file).suffix), None)


def checked(registry: SchemaRegistry, subject: str, file: str, kind: str | None, job: Job | None) -> Candidate:
    """A schema's file as the subject's next version. kind: its type, None to find out. job: whose tables it is for.

    Raises:
        ConfigurationError: the file cannot be read, or is none that the registry takes; the job has other subjects.
        SchemaRegistryError: the registry cannot be asked.
    """
    text = _text(file)
    with accepted():
        try:
            newest = registry.latest(subject)
        except SchemaNotFound:
            newest = None
        kind = kind or _type_of(file) or (newest.schema.type if newest is not None else "JSON")
        assert kind in SCHEMA_TYPES
        # References are the newest version's: a new schema is usually the old one with a change.
        schema = Schema(text, kind, newest.schema.references if newest is not None else ())
        resolved = registry.resolve(schema)
        _check_sound(resolved, file)
        reasons = _reasons(registry, subject, schema) if newest is not None else None
        before = None
        if newest is not None:
            before = f"version {newest.version} of subject {subject}", registry.resolve(newest.schema)
    if job is not None:
        return Candidate(file, reasons, _of_job(job, subject, resolved, file, before))
    checks = (check_against_version(*before, resolved),) if before is not None else ()
    return Candidate(file, reasons, checks)


def _check_sound(schema: Resolved, file: str) -> None:
    """Raises ConfigurationError where it is no schema; one without columns is refused by the checks."""
    try:
        registered_type(schema)
    except InvalidSchema as error:
        message = f"{file} is no {schema.schema.type} schema: {error}"
        raise ConfigurationError.of("--check", message, "correct it, or give its --type") from None
    except PayloadSchemaError:
        pass


def _reasons(registry: SchemaRegistry, subject: str, schema: Schema) -> tuple[str, ...] | None:
    """Why the registry would not take the schema; None: it would."""
    try:
        reasons = registry.incompatibilities(subject, schema, None)
    except SchemaRegistryError as error:
        if error.status != _NO_SCHEMA:
            raise
        return (error.message,)
    return None if reasons is None else tuple(reasons) or ("incompatible; the registry gives no reason",)


def _text(file: str) -> str:
    try:
        return Path(file).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ConfigurationError.of("--check", f"{file} cannot be read: {reason}", "a schema's file") from None


def _of_job(
    job: Job, subject: str, schema: Resolved, file: str, before: tuple[str, Resolved] | None
) -> tuple[SchemaCheck, ...]:
    parts = list(parts_of(job, subject))
    if not parts:
        listed = ", ".join(subjects_of(job)) or "none"
        message = f"the job {job.name} decodes nothing with subject {subject}"
        raise ConfigurationError.of("SUBJECT", message, f"its subjects: {listed}")
    state = state_of(job)
    return tuple(check_against_job(job, state, part, schema, file, before) for part in parts)


def state_of(job: Job) -> JobState:
    """The job's state in its ledger, an empty one before its first run. Raises Refused, RetriableFailure."""
    try:
        return Ledger.open(job.ledger, create=False).read(job.name)
    except Refused as refused:
        if refused.code != "ledger-missing":
            raise
        return JobState(job=job.name, ledger_id="")
