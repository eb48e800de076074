"""Load a job file as a `Job`: everything is checked before anything runs, and all faults are reported at once.

    YAML -> values with lines -> properties flattened, references filled in -> each section validated
         -> rules between keys -> client properties checked by the client itself -> Job

Secrets stay out of all of it: properties of `kafka` and `spark.conf` are validated as written; their resolved values
go to the client's check alone, whose words are dropped for every property that came from a reference.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

from kseg.etl.config.decoding import AnyDecode, decode_findings, decodes_by_topic
from kseg.etl.config.document import Document, PathKey, dotted, read_document
from kseg.etl.config.faults import Finding, findings_of
from kseg.etl.config.filled import Kinds, below, taken
from kseg.etl.config.interval import IntervalRules, interval_findings
from kseg.etl.config.job import Job
from kseg.etl.config.literals import with_literals
from kseg.etl.config.paths import normal_path
from kseg.etl.config.properties import Properties, as_references, check_kafka, check_registry, check_spark_conf
from kseg.etl.config.references import ReferenceFault, resolve
from kseg.etl.config.rules import all_rules
from kseg.etl.config.scheduling import Airflow, airflow_findings
from kseg.etl.config.secrets import names_file, referenced_names, sounds_secret
from kseg.etl.config.sections import Sink, Source
from kseg.etl.config.untrusted import Restrictions
from kseg.etl.config.values import JobName
from kseg.etl.config.view import View
from kseg.etl.config.written_numbers import NOT_DECIMAL, WrittenFloat, WrittenInt
from kseg.etl.errors import ConfigurationError, Diagnostic

M = TypeVar("M", bound=BaseModel)
S = TypeVar("S")

SECTIONS = ("source", "decode", "sink", "run", "interval", "airflow", "spark", "reporting")
_SEGMENT_OPTIONS = ("source", "segments", "options")
_PLACES_OF_SECRETS = "secrets are allowed in `kafka`, `registry`, `spark.conf` and `source.segments.options`"


def load_job(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    env: Mapping[str, str] = os.environ,
    kafka: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Job:
    """Read and validate a job file, or a mapping with its content.

    env: where `${NAME}` references are resolved. kafka: client properties that override those of the file, flat and
    by their Java names; secrets among them become references, so no repr and no ledger holds them. overrides:
    top-level keys; a mapping is merged into the section of its name, None removes a key.
    Raises ConfigurationError with every fault: its path, its line, what is wrong, what to do.
    """
    if isinstance(source, Mapping):
        document, folder, name = Document(value=_plain(source)), Path.cwd(), None
    else:
        file = Path(source)
        document, folder, name = read_document(file), file.parent.absolute(), str(source)
    if overrides and isinstance(document.value, dict):
        document.value = _merged(document.value, _plain(overrides))
    over, known = as_references(kafka or {})
    return _Loading(document, folder, {**env, **known}, name, over=over, known=known).job()


def job_name(file: str | os.PathLike[str]) -> str | None:
    """The name in a job file, valid or not; None where there is no such file, or no name that a job may have."""
    value = read_document(Path(file)).value
    try:
        return TypeAdapter(JobName).validate_python(value.get("name") if isinstance(value, dict) else None, strict=True)
    except ValidationError:
        return None


def job_from_document(document: Mapping[str, Any], *, env: Mapping[str, str] = os.environ) -> Job:
    """The same for a job that is values already (one pinned in a ledger). Raises ConfigurationError.

    Plain values were filled in before they were pinned, so a `${` in them now is text.
    """
    return _Loading(Document(value=_plain(document)), Path.cwd(), env, None, filled=True).job()


@dataclass(slots=True)
class _Loading:
    """One attempt at one document."""

    document: Document
    folder: Path
    env: Mapping[str, str]
    file: str | None
    filled: bool = False
    findings: list[Finding] = field(default_factory=list)
    over: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    restrictions: Restrictions | None = field(default_factory=Restrictions.of_process)

    @property
    def context(self) -> dict[str, Any]:
        """What values are validated with (`etl.config.values`)."""
        return {"folder": self.folder, "restrictions": self.restrictions, "pinned": self.filled}

    def job(self) -> Job:
        value = self.document.value
        if not isinstance(value, dict):
            if value is not None:
                self.document.faults.append(
                    Diagnostic("", "is not a mapping of keys to values", "start with `version: 1`", 1)
                )
            raise self._error()
        raw = _without_nulls(value)
        if self.restrictions is not None:
            self.findings += self.restrictions.findings(raw, self.folder)
            if self.findings:  # nothing of such a file is used
                raise self._error()
        if self.over and raw.get("kafka") is None:
            raw["kafka"] = {}
        kafka = self._properties(raw.get("kafka"), ("kafka",), over=self.over)
        registry = self._properties(raw.get("registry"), ("registry",))
        spark = raw.get("spark")
        conf = self._properties(spark.get("conf") if isinstance(spark, dict) else None, ("spark", "conf"))
        segments = self._properties(_at(raw, _SEGMENT_OPTIONS), _SEGMENT_OPTIONS)
        self.findings += [*kafka.findings, *registry.findings, *conf.findings, *segments.findings]

        if "decode" in raw:
            raw["decode"] = self._with_literals(raw["decode"])
        filled = {
            key: self._fill(part, (key,), below((Job,), key))
            for key, part in raw.items()
            if key not in ("kafka", "registry")
        }
        data = _with_properties(filled, kafka, registry, conf, segments)
        job = self._validate(Job, data, raw)
        self._check_rules({**filled, "kafka": kafka.value, "registry": registry.value}, conf, registry)
        if isinstance(raw.get("kafka"), dict):
            name = job.name if job else "job"
            self.findings += check_kafka(kafka, client_id=f"kseg-{name}")
        if isinstance(raw.get("registry"), dict):
            self.findings += check_registry(registry)
        self.findings += check_spark_conf(conf)
        if self.findings or self.document.faults or job is None:
            raise self._error()
        resolved = {"kafka": kafka, "registry": registry, "spark": conf, "segments": segments}
        job.take_secrets(self.known, **{name: properties.resolved() for name, properties in resolved.items()})
        return job

    def _properties(self, value: Any, place: PathKey, over: Mapping[str, str] | None = None) -> Properties:
        return Properties.read(value, place, self.folder, self.env, over=over, document=self.document)

    def _with_literals(self, decode: Any) -> Any:
        """The section with the literals of its expectations as the file has them; as it is if it was pinned."""
        if not isinstance(decode, dict) or self.filled:
            return decode
        if not decodes_by_topic(decode):
            return with_literals(decode, ("decode",), self.document, self.findings)
        return {
            topic: with_literals(part, ("decode", str(topic)), self.document, self.findings)
            if isinstance(part, dict)
            else part
            for topic, part in decode.items()
        }

    def _validate(self, model: type[M], data: Any, raw: Any) -> M | None:
        try:
            return model.model_validate(data, context=self.context)
        except ValidationError as error:
            known = {finding.path for finding in self.findings}
            self.findings += [f for f in findings_of(error, model, raw) if f.path not in known]
            return None

    def _check_rules(self, filled: Mapping[str, Any], conf: Properties, registry: Properties) -> None:
        ledger = filled.get("ledger")
        view = View(
            raw=filled,
            faulty=frozenset(finding.path for finding in self.findings),
            source=self._lenient(Source, filled.get("source")),
            sink=self._lenient(Sink, filled.get("sink")),
            ledger=self._ledger(ledger) if isinstance(ledger, str) else None,
            spark_conf=conf.written,
        )
        self.findings += all_rules(view)
        kind = dict(registry.resolved()).get("type", "confluent") if filled.get("registry") else ""
        self.findings += self._rules_within("decode", AnyDecode, partial(decode_findings, registry=kind), filled)
        self.findings += self._rules_within("interval", IntervalRules, interval_findings, filled)
        if not self.filled:  # how a pinned job was scheduled need not satisfy rules of later versions
            self.findings += self._rules_within("airflow", Airflow, airflow_findings, filled)

    def _rules_within(
        self, name: str, kind: Any, rules: Callable[[S], Iterator[Finding]], filled: Mapping[str, Any]
    ) -> list[Finding]:
        """Findings of rules in a section whose values are sound, each for itself. kind: the section's type."""
        if name not in filled or any(finding.path[:1] == (name,) for finding in self.findings):
            return []
        section: S = TypeAdapter(kind).validate_python(filled[name], context=self.context)
        return list(rules(section))

    def _lenient(self, model: type[M], data: Any) -> M:
        """A section whose faulty keys have their defaults."""
        data = dict(data) if isinstance(data, dict) else {}
        while data:
            try:
                return model.model_validate(data, context=self.context)
            except ValidationError as error:
                for details in error.errors(include_url=False, include_input=False, include_context=False):
                    data.pop(details["loc"][0], None)
        return model()

    def _ledger(self, text: str) -> str | None:
        try:
            return normal_path(text, self.folder)
        except ValueError:
            return None

    def _fill(self, value: Any, path: PathKey, kinds: Kinds) -> Any:
        """What is no property: references filled in with environment variables, and numbers without their text.

        kinds: what the key takes.
        """
        if path in (("spark", "conf"), _SEGMENT_OPTIONS) or self.filled:
            return value
        if isinstance(value, dict):
            return {key: self._fill(part, (*path, str(key)), below(kinds, str(key))) for key, part in value.items()}
        if isinstance(value, list):
            return [self._fill(part, (*path, index), below(kinds, index)) for index, part in enumerate(value)]
        if isinstance(value, WrittenInt | WrittenFloat):
            return self._number(value, path)
        if not isinstance(value, str) or "${" not in value:
            return value
        if path[0] == "airflow":
            problem = "has a reference, and Airflow reads this section without resolving references"
            self.findings.append(Finding(path, problem, "write the value itself, or set it in the DAG file"))
            return value
        secret = next((name for name in referenced_names(value) if sounds_secret(name)), None)
        if names_file(value) or secret:
            problem = f"refers to {secret}, and this value appears in output" if secret else "refers to a file"
            self.findings.append(Finding(path, problem, _PLACES_OF_SECRETS))
            return value
        try:
            text = resolve(value, env=self.env, folder=self.folder)
        except ReferenceFault as fault:
            self.findings.append(Finding(path, str(fault), fault.remedy))
            return value
        return self._number(taken(text, kinds), path)

    def _number(self, value: Any, path: PathKey) -> Any:
        if isinstance(value, WrittenFloat):
            return float(value)
        if not isinstance(value, WrittenInt):
            return value
        if not value.is_decimal:
            self.findings.append(Finding(path, *NOT_DECIMAL))
        return int(value)

    def _error(self) -> ConfigurationError:
        faults = list(self.document.faults)
        seen: set[tuple[str, str]] = set()
        for path, message, remedy in self.findings:
            place = dotted(path)
            if (place, message) not in seen:
                seen.add((place, message))
                faults.append(Diagnostic(place, message, remedy, self.document.line(path)))
        faults.sort(key=lambda fault: fault.line or 0)
        return ConfigurationError(faults, file=self.file)


def _at(raw: Any, path: PathKey) -> Any:
    """The value at a path; None if there is none."""
    for key in path:
        raw = raw.get(key) if isinstance(raw, Mapping) else None
    return raw


def _with_properties(
    filled: Mapping[str, Any], kafka: Properties, registry: Properties, conf: Properties, options: Properties
) -> dict[str, Any]:
    """The document with properties in their flat form, and what follows from other keys filled in."""
    data = dict(filled)
    if kafka.present:
        data["kafka"] = dict(kafka.written) if kafka.is_mapping else kafka.value
    if registry.present:
        data["registry"] = dict(registry.written) if registry.is_mapping else registry.value
    spark = data.get("spark")
    if isinstance(spark, dict) and conf.present and conf.is_mapping:
        data["spark"] = {**spark, "conf": dict(conf.written)}
    if options.present and options.is_mapping:
        source = data["source"]
        data["source"] = {**source, "segments": {**source["segments"], "options": dict(options.written)}}
    commits = data.get("group") is not None and kafka.present
    data.setdefault("group_commit", "transactional" if commits else "none")
    return data


def _without_nulls(value: dict[Any, Any]) -> dict[Any, Any]:
    """For rules, which read the document: a key without a value is a key not given, as it is for each `Section`.

    `transform:` with every step commented out is natural to write.
    """
    kept = {key: part for key, part in value.items() if part is not None}
    for section in SECTIONS:
        if isinstance(kept.get(section), dict):
            kept[section] = {key: part for key, part in kept[section].items() if part is not None}
    return kept


def _merged(value: Mapping[Any, Any], overrides: Mapping[Any, Any]) -> dict[Any, Any]:
    merged = dict(value)
    for key, override in overrides.items():
        section = merged.get(key)
        if isinstance(section, Mapping) and isinstance(override, Mapping):
            merged[key] = {**section, **override}
        else:
            merged[key] = override
    return merged


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
