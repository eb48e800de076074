"""Schemas that records name and the plan lacks: which context's registry is asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.registry.errors import SchemaNotFound
from kseg.client.registry.schemas import ApicurioId, Schema
from kseg.etl.run.schemas import _other_kind, _schema
from kseg.jobs.records.decoded import ByRegistry

GUID = "89791762-2336-4186-9674-299b90a802e2"


class Contexts:
    """A registry with one schema in the context `:.eu:`."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def schema(self, key: int | str, subject: str = "") -> Schema:
        if isinstance(key, str):
            return Schema(f"{key} {subject}")
        self.asked.append(subject)
        if not subject.startswith(":.eu:"):
            raise SchemaNotFound(f"schema {key} not found", url="http://sr", status=404)
        return Schema("eu")

    def resolve(self, schema: Schema) -> Schema:
        return schema


def test_an_id_is_looked_up_in_the_contexts_of_the_subjects() -> None:
    """Each one once, in their order."""
    registry: Any = Contexts()
    subjects = [":.prod:a-value", ":.prod:b-value", ":.eu:c-value", "d-value"]
    assert _schema(registry, "5", subjects).text == "eu"
    assert registry.asked == [":.prod:", ":.eu:"]
    assert _schema(registry, GUID, subjects).text == f"{GUID} :.prod:"
    with pytest.raises(SchemaNotFound, match="schema 5"):
        _schema(registry, "5", ["{topic}-value"])


@pytest.mark.parametrize(
    ("key", "ids", "other"),
    [("7", None, "global"), ("content/7", "content", "global"), ("global/7", "global", None), ("global/7", None, None)],
)
def test_the_other_kind_of_ids_is_looked_for_where_the_job_file_decides_on_it(
    key: str, ids: str | None, other: str | None
) -> None:
    """The registry knows the global id 7 alone. An id in a header has the kind that the header's name says."""

    def schema(name: int | str | ApicurioId) -> Schema:
        if name == ApicurioId("global", 7):
            return Schema("of a global id")
        raise SchemaNotFound("not found", url="http://sr", status=404)

    registry: Any = SimpleNamespace(schema=schema)
    assert _other_kind(registry, key, ids) == other


def test_a_record_that_is_shown_has_the_schema_of_its_context() -> None:
    registry: Any = Contexts()
    of_records = ByRegistry(registry)
    assert of_records.schema(5) is None
    assert of_records.schema(5, ":.eu:orders-value") == Schema("eu")
    assert of_records.schema(5, ":.eu:payments-value") == Schema("eu")
    assert registry.asked == ["", ":.eu:orders-value"]
