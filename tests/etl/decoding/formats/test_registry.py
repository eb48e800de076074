"""Every format has what the registry says of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from kseg.client.registry.schemas import SCHEMA_TYPES
from kseg.etl.config.decoding import Format, Payload
from kseg.etl.decoding.formats.registry import (
    FORMATS,
    Function,
    in_registries,
    in_samples,
    of_registry_type,
    schema_format,
)
from kseg.etl.decoding.rules import NEWEST


def functions(record: Any) -> Iterator[Function[..., Any]]:
    for field in dataclasses.fields(record):
        found = getattr(record, field.name)
        if isinstance(found, Function):
            yield found
        elif dataclasses.is_dataclass(found):
            yield from functions(found)


@pytest.mark.parametrize("name", FORMATS)
def test_its_functions_are_there(name: str) -> None:
    found = list(functions(FORMATS[name]))
    assert found
    assert all(callable(function.load()) for function in found)


def test_the_job_file_has_their_names() -> None:
    assert get_args(Format) == tuple(FORMATS)
    assert all(form.name == name for name, form in FORMATS.items())


@pytest.mark.parametrize("name", FORMATS)
def test_its_options_are_keys_of_the_job_file(name: str) -> None:
    assert FORMATS[name].options <= set(Payload.model_fields)


def test_every_type_of_schemas_has_one_format() -> None:
    assert sorted(own.type for _, own in in_registries()) == sorted(SCHEMA_TYPES)


@pytest.mark.parametrize("type", SCHEMA_TYPES)
def test_formats_with_messages_have_their_indexes_in_payloads(type: str) -> None:
    form, own = of_registry_type(type)
    payload = Payload.model_validate({"format": form.name, "schema": "registry"})
    assert schema_format(payload, NEWEST).indexed == own.indexed == form.indexed


@pytest.mark.parametrize("name", FORMATS)
def test_a_registry_is_where_the_schemas_of_some_formats_are(name: str) -> None:
    form = FORMATS[name]
    assert (form.in_registry is not None) == ("registry" in form.schemas)


def test_payloads_with_documents_have_a_name_and_a_format_for_one_column() -> None:
    found = {name: own for name, own in in_samples() if own.document is not None}
    assert "json" in found
    for name, own in found.items():
        assert own.words
        assert "columns" in FORMATS[name].schemas
        assert FORMATS[own.plain].schemas == ()
