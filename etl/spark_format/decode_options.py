"""Options `key.…` and `value.…` of `format("kseg")`: typed columns instead of bytes, as with a job's `decode:` section.

    .option("value.format", "json").option("value.schema", "id bigint, items array<struct<sku:string>>")
    .option("value.format", "avro").option("value.schema", <the schema's text>)
    .option("value.format", "protobuf").option("value.schema", <a .proto text, or descriptors in base64>)
    .option("value.format", "avro").option("value.schema", "registry").option("schema.registry.url", "http://sr:8081")

The names after the dot are those of the section (docs/reference/configuration.md); `formats` and `rename` are JSON
objects. `schema.registry.` is the prefix of properties of the registry's client. `keep` is a comma-separated list of
Kafka's own columns (`timestamp` …) that rows have as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kseg.etl.decoding.formats.registry import FORMATS
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.spark_format.registered import REGISTRY, registered_schemas, registry_options

if TYPE_CHECKING:
    from kseg.etl.transform.decode import DecodeStep

_SOURCES = ("key.", "value.")
_MAPPINGS = ("formats", "rename")
_COLUMN = re.compile(r"\s*(?:`(?P<quoted>(?:[^`]|``)+)`|(?P<word>\w+))(?:\s*:\s*|\s+)(?P<type>\S.*?)\s*", re.DOTALL)
KEEP = "keep"


def decode_step_of_options(options: Mapping[str, str], topics: Sequence[str] | None = None) -> DecodeStep | None:
    """The decoding step; None: keys and values stay bytes. options: with lower-case names. topics: those that the
    options name.

    Raises:
        ConfigurationError: with every fault at once, each with its option's name.
        SchemaRegistryError: a request to the registry failed.
    """
    given = {name: str(text) for name, text in options.items() if name.startswith(_SOURCES)}
    if not given:
        if any(name.startswith(REGISTRY) for name in options):
            message = "names a registry, and neither keys nor values are decoded"
            raise ConfigurationError.of(f"{REGISTRY}url", message, "set value.format, or leave it out")
        if KEEP in options:
            raise ConfigurationError.of(KEEP, "names columns beside decoded ones", "set value.format, or leave it out")
        return None
    from pydantic import ValidationError

    from kseg.etl.config.decoding import Decode, decode_findings
    from kseg.etl.config.document import dotted
    from kseg.etl.config.faults import findings_of
    from kseg.etl.transform.decode import decode_step

    document: dict[str, Any] = {}
    faults: list[Diagnostic] = []
    for name, text in given.items():
        source, _, key = name.partition(".")
        try:
            document.setdefault(source, {})[key] = _value(key, text, given.get(f"{source}.format"))
        except ValueError as error:
            faults.append(Diagnostic(name, str(error)))
    if KEEP in options:
        document[KEEP] = [name.strip() for name in str(options[KEEP]).split(",") if name.strip()]
    registry = registry_options(options)
    if not faults:
        try:
            decode = Decode.model_validate(document)
        except ValidationError as error:
            faults += [Diagnostic(dotted(f.path), f.message, f.remedy) for f in findings_of(error, Decode, document)]
        else:
            found = decode_findings(decode, registry=registry.get("type", "confluent"))
            faults += [Diagnostic(dotted(f.path[1:]), f.message, f.remedy) for f in found]
            # Before records are read, the schemas are requested by their subjects: their ids are those of one API.
            kinds = [name for name in ("key", "value") if (own := getattr(decode, name)) and own.ids]
            faults += [
                Diagnostic(f"{name}.ids", "is for jobs alone", "remove it, or write a job file") for name in kinds
            ]
    if faults:
        raise ConfigurationError(faults)
    by_registry = [name for name in ("key", "value") if (own := getattr(decode, name)) and own.by_registry]
    if by_registry and registry.keys().isdisjoint({"url", "type"}):
        raise ConfigurationError.of(f"{by_registry[0]}.schema", "needs a schema registry", f"set {REGISTRY}url")
    if registry and not by_registry:
        message = "names a registry, and no schema is in it"
        raise ConfigurationError.of(f"{REGISTRY}url", message, "set value.schema to registry, or leave it out")
    return decode_step(decode, "", registered_schemas(decode, registry, topics) if by_registry else {})


def _value(key: str, text: str, format: str | None) -> Any:
    if key in _MAPPINGS:
        try:
            found = json.loads(text)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise ValueError('is no JSON object, as in {"user-id": "user_id"}')
        return found
    if key == "max_columns" and text.isdecimal():
        return int(text)
    if key != "schema" or text.strip() == "registry":
        return text
    known = FORMATS.get(format or "")
    if known is not None and known.option_text is not None:
        return {"file": "schema", "text": known.option_text(text)}
    if text.lstrip()[:1] in ("{", "[", '"'):
        return {"file": "schema", "text": text}  # as if it had been read from a file
    return {"columns": dict(_columns(text))}


def _columns(text: str) -> Iterator[tuple[str, str]]:
    """`id bigint, note string` -> names and types."""
    for part in _parts(text):
        match = _COLUMN.fullmatch(part)
        if match is None:
            raise ValueError(f"{part.strip()!r} is no column: write a name and a type, as in `id bigint, note string`")
        yield match["word"] or match["quoted"].replace("``", "`"), match["type"]


def _parts(text: str) -> Iterator[str]:
    """Split at commas outside of brackets and backquotes."""
    depth, quoted, start = 0, False, 0
    for at, sign in enumerate(text):
        if sign == "`":
            quoted = not quoted
        elif not quoted and sign in "<(":
            depth += 1
        elif not quoted and sign in ">)":
            depth -= 1
        elif sign == "," and not depth and not quoted:
            yield text[start:at]
            start = at + 1
    yield text[start:]
