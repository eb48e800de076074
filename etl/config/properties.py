"""Property sections (`kafka:`, `registry:`, `spark.conf:`): flat names, text values, references, and which are valid.

    bootstrap.servers: localhost:9092        kafka:
    ssl:                                       bootstrap.servers: [a:9092, b:9092]      # a list joins with commas
      keystore.location: /etc/k.jks            fetch.max.wait.ms: 500                   # numbers as they are written
                                               sasl.jaas.config: ${file:/run/secrets/jaas}

Names may be written dotted or nested. Values are kept as written; `resolved()` gives the ones to connect with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kseg.etl.config.document import Document, PathKey
from kseg.etl.config.faults import Finding, kind_of
from kseg.etl.config.literals import source_text
from kseg.etl.config.references import ReferenceFault, resolve
from kseg.etl.config.secrets import SecretProperties, anchored, has_reference, sounds_secret, stands_in_clear

if TYPE_CHECKING:
    from kseg.client.errors import ConfigFault

# Properties of the Java clients whose meaning a job file has elsewhere.
_ELSEWHERE = {
    "group.id": "group",
    "transactional.id": "transactional_id",
    "isolation.level": "source.isolation_level",
    "auto.offset.reset": "source.starting_offsets",
    "enable.auto.commit": "group_commit",
}
_SECRET_REMEDY = "write ${NAME} for an environment variable, or ${file:/path}"
_MISSING_SERVERS = Finding(
    ("kafka", "bootstrap.servers"), "is missing", "add `bootstrap.servers: host:9092`, several separated by commas"
)


@dataclass(slots=True)
class Properties:
    """One section.

    written: text by flat name, references unresolved and their file paths absolute.
    places: the path of each name in the file.
    """

    value: Any
    base: PathKey
    written: dict[str, str] = field(default_factory=dict)
    places: dict[str, PathKey] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _values: dict[str, str] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        value: Any,
        base: PathKey,
        folder: Path,
        env: Mapping[str, str],
        *,
        over: Mapping[str, str] | None = None,
        document: Document | None = None,
    ) -> Properties:
        """value: the section as parsed, None where the file has none. over: flat names and texts laid over it.
        document: the file."""
        section = cls(value, base)
        if isinstance(value, Mapping):
            section._flatten(value, (), base, folder, document)
            for name, text in (over or {}).items():
                section.written[name] = text
                section.places.setdefault(name, (*base, name))
        for key, text in section.written.items():
            section._check_value(key, text, folder, env)
        return section

    @property
    def present(self) -> bool:
        return self.value is not None

    @property
    def is_mapping(self) -> bool:
        return isinstance(self.value, Mapping)

    @property
    def referring(self) -> frozenset[str]:
        """The names whose values hold a reference."""
        return frozenset(key for key, text in self.written.items() if has_reference(text))

    def resolved(self) -> SecretProperties:
        """The values to connect with; those that could not be resolved are left out."""
        return SecretProperties(self._values, self.referring)

    def _flatten(
        self,
        value: Mapping[Any, Any],
        prefix: tuple[str, ...],
        place: PathKey,
        folder: Path,
        document: Document | None,
    ) -> None:
        for key, part in value.items():
            here = (*place, str(key))
            if not isinstance(key, str) or not key.strip(". "):
                self.findings.append(
                    Finding(here, "is not a property name", "names are text, such as bootstrap.servers")
                )
                continue
            names = (*prefix, key)
            if isinstance(part, Mapping) and part and not _ends_a_secret(key):
                self._flatten(part, names, here, folder, document)
                continue
            text = _text(part, here, document)
            name = ".".join(names)
            if text is None:
                problem = "has no value" if part is None else f"is {kind_of(part)} where one value is expected"
                self.findings.append(Finding(here, problem, "write text, a number, true or false"))
            elif name in self.written:
                self.findings.append(Finding(here, "is given twice, in dotted and in nested form", "keep one of them"))
            else:
                self.written[name], self.places[name] = anchored(text, folder), here

    def _check_value(self, key: str, text: str, folder: Path, env: Mapping[str, str]) -> None:
        if stands_in_clear(key, text):
            self.findings.append(Finding(self.places[key], "is a secret in plain text", _SECRET_REMEDY))
            return
        try:
            self._values[key] = resolve(text, env=env, folder=folder)
        except ReferenceFault as fault:
            self.findings.append(Finding(self.places[key], str(fault), fault.remedy))


def as_references(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Properties from elsewhere as a job file would write them, and the environment that its references need.

    Secrets become references; in all other values a `${` is text.
    """
    written: dict[str, str] = {}
    known: dict[str, str] = {}
    for name, text in properties.items():
        if sounds_secret(name):
            variable = "KSEG_COMMAND_CONFIG_" + re.sub(r"\W", "_", name).upper()
            written[name], known[variable] = f"${{{variable}}}", text
        else:
            written[name] = text.replace("${", "$${")
    return written, known


def check_kafka(kafka: Properties, *, client_id: str) -> Iterator[Finding]:
    """What the client would reject, with its own messages except where they could quote a secret."""
    from kseg.client.security.foreign_names import RENAMED

    if not any(RENAMED.get(key, key) == "bootstrap.servers" for key in kafka.written):
        yield _MISSING_SERVERS
    values = dict(kafka.resolved())
    for key in _ELSEWHERE.keys() & values.keys():
        del values[key]
        yield Finding(kafka.places[key], "is set by another key of the job file", f"use `{_ELSEWHERE[key]}`")
    from kseg.client.config import ClientConfig

    yield from _client_findings(kafka, values, lambda known: ClientConfig.from_properties(known, client_id=client_id))


def check_registry(registry: Properties) -> Iterator[Finding]:
    """What the client of a schema registry would reject."""
    from kseg.client.registry.opening import registry_config

    url = registry.written.get("url", "")
    if "@" in url and not has_reference(url):
        place = registry.places["url"]
        yield Finding(place, "has a password in plain text", "write it as basic.auth.user.info: ${NAME}")
        return
    yield from _client_findings(registry, dict(registry.resolved()), registry_config)


def check_spark_conf(conf: Properties) -> Iterator[Finding]:
    """Spark reads any name; these would be dropped in silence or overrule the job file."""
    for key, place in conf.places.items():
        if key == "spark.master":
            yield Finding(place, "is set by another key of the job file", "use `spark.master`: {master: …}")
        elif not key.startswith("spark."):
            remedy = f"write spark.hadoop.{key}" if key.startswith("fs.") else f"did you mean spark.{key}?"
            yield Finding(place, "does not start with spark., so Spark would ignore it", remedy)


def _client_findings(
    section: Properties, values: Mapping[str, str], parse: Callable[[Mapping[str, str]], object]
) -> Iterator[Finding]:
    from kseg.client.errors import ConfigError

    try:
        parse(values)
    except ConfigError as error:
        faults = error.faults
    else:
        return
    unread = {_family(key) for key in section.written if key not in values}
    for fault in faults:
        key = fault.key
        if key not in values and (key in section.written or _family(key) in unread):
            continue  # reported already: its reference leads nowhere, or it has a key of its own; or a consequence
        place = section.places.get(key, (*section.base, key))
        if key in section.referring and not sounds_secret(key):  # the client quotes no secret, but other values
            yield Finding(place, "its value, resolved from a reference, is not valid", "check what it refers to")
        else:
            yield Finding(place, _with_name(fault, section.written.get(key, "")), fault.remedy)


def _family(name: str) -> str:
    """`sasl` of `sasl.username`: of a family one of whose values is not known, nothing can be said to be missing."""
    return name.partition(".")[0]


def _with_name(fault: ConfigFault, written: str) -> str:
    """The fault's message, with the name of the option that it is about: the file has references for its secrets, so
    what stands there as a name is one."""
    from kseg.client.security.jaas import parse_jaas

    if not fault.option:
        return fault.message
    try:
        names = list(parse_jaas(written).options)
    except ValueError:  # the whole text is one reference
        return fault.message
    if fault.option > len(names):
        return fault.message
    return fault.message.replace(f"option {fault.option} ", f"option {names[fault.option - 1]} ", 1)


def _ends_a_secret(name: str) -> bool:
    """A mapping below such a name is no property but a secret without its quotes: `{x` and `}` are YAML."""
    return name.lower().endswith(("password", "passphrase", "secret"))


def _text(value: Any, place: PathKey, document: Document | None) -> str | None:
    """A property's text; None for what is not one."""
    if isinstance(value, list | tuple):
        items = [source_text(item, (*place, number), document) for number, item in enumerate(value)]
        return ",".join(map(str, items)) if items and None not in items else None
    return source_text(value, place, document)
