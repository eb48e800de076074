"""The JSON Schema of the job file as it is written, for editors and for Airflow (`kseg check --schema`).

It is made from the same models that check a job file. What needs more than one key, another file or a broker is left to
`kseg check`: the schema accepts every sound job file, and some that are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from kseg.etl.config.job import Job
from kseg.etl.config.load import SECTIONS
from kseg.etl.config.values import ANY_TEXT, fields_by_key, models_in

Schema = dict[str, Any]

_REFERENCE = {"type": "string", "pattern": r"\$\{", "description": "filled in from the environment, as in ${LAKE}"}
_SCALAR = {"type": ["string", "number", "boolean"]}
_PROPERTIES = {
    "type": "object",
    "description": "names dotted or nested; ${NAME} and ${file:/path} where a value is secret",
    "additionalProperties": {
        "anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1}, {"type": "object"}]
    },
}
#: Where properties are, by model and field.
_PLACES_OF_PROPERTIES = (("Job", "kafka"), ("Job", "registry"), ("Spark", "conf"), ("Segments", "options"))
#: Models whose values are taken as written: Airflow reads them, and it fills in no reference.
_LITERAL = ("Airflow", "AssetSchedule", "Execution")
_NOT_TEXT = ("integer", "number", "boolean")
#: Models of which `load.py` drops keys without a value.
_WITHOUT_NULLS = {model for name in SECTIONS for model in models_in(Job.model_fields[name].annotation)}
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1))


def job_schema() -> Schema:
    """The job file as a document of JSON Schema 2020-12."""
    job = Job.model_json_schema()
    documents: dict[str, Schema] = {"Job": job, **job.pop("$defs")}
    named: dict[str, Schema] = {"Properties": _PROPERTIES, "Reference": _REFERENCE}
    models: list[type[BaseModel]] = [Job, *_models(Job)]
    for model in dict.fromkeys(models):
        document = documents[model.__name__]
        del document["title"]
        fields = {key: _field(model, key, part) for key, part in document["properties"].items()}
        references = model.__name__ not in _LITERAL
        document["properties"] = {key: _rewritten(part, named, references) for key, part in fields.items()}
    job["required"].remove("group_commit")
    job["description"] = (
        "What lands in which Delta tables: docs/reference/configuration.md has all keys. `kseg check` checks more."
    )
    del documents["Job"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Job file of kseg",
        **job,
        "$defs": dict(sorted((documents | named).items())),
    }


def job_schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(job_schema(), indent=2, ensure_ascii=False) + "\n"


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """The models inside of a model."""
    for field in model.model_fields.values():
        for inner in models_in(field.annotation):
            yield inner
            yield from _models(inner)


def _field(model: type[BaseModel], key: str, part: Schema) -> Schema:
    """A field as a job file spells it: its default, properties in all their forms, and null for a key not given."""
    part = {"$ref": "#/$defs/Properties"} if (model.__name__, key) in _PLACES_OF_PROPERTIES else dict(part)
    part.pop("title", None)
    part.pop("default", None)
    field = fields_by_key(model)[key]
    optional = not field.is_required() or key == "group_commit"  # which follows from other keys
    if optional and (model is Job or model in _WITHOUT_NULLS):
        part = {"anyOf": [part, {"type": "null"}]}
    if isinstance(field.default, timedelta):
        part["default"] = _spelled(field.default)
    elif isinstance(field.default, str | bool | int):
        part["default"] = field.default
    elif field.default == ():
        part["default"] = []
    return part


def _rewritten(value: Any, named: dict[str, Schema], references: bool) -> Any:
    """The same with kinds of values by name, and with a reference beside every number, true and false, and every text
    that not any text may be."""
    if isinstance(value, list):
        return [_rewritten(part, named, references) for part in value]
    if not isinstance(value, dict):
        return value
    made = {key: part if key == "propertyNames" else _rewritten(part, named, references) for key, part in value.items()}
    if "patternProperties" in made:
        made["additionalProperties"] = False
    if "anyOf" in made:
        made["anyOf"] = _flat(made["anyOf"])
    kind = made.pop("$comment", None)
    if kind is not None:
        named[kind] = made
        made = {"$ref": f"#/$defs/{kind}"}
    text = made.get("type") == "string" and (made.get("pattern", ANY_TEXT) != ANY_TEXT or "enum" in made)
    if references and (kind is not None or text or made.get("type") in _NOT_TEXT):
        default = {"default": made.pop("default")} if "default" in made else {}
        return {"anyOf": [made, {"$ref": "#/$defs/Reference"}], **default}
    return made


def _flat(choices: list[Schema]) -> list[Schema]:
    """Choices without choices among them, each once."""
    found: list[Schema] = []
    for choice in choices:
        found += [part for part in (choice["anyOf"] if [*choice] == ["anyOf"] else [choice]) if part not in found]
    return found


def _spelled(duration: timedelta) -> str:
    millis = duration // timedelta(milliseconds=1)
    return next((f"{millis // size}{unit}" for unit, size in _UNITS if millis and millis % size == 0), "0s")
