"""docs/reference/configuration.md tells the truth: every key, every default, and examples that load."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from kseg.client.config import _PROPERTIES, ClientConfig
from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.config.properties import _ELSEWHERE
from kseg.etl.config.times import parse_duration
from kseg.etl.config.values import fields_by_key

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "configuration.md"
ROWS = {
    match[1]: match[2].strip()
    for match in re.finditer(r"^\| `([a-z_.*\[\]]+)` \|[^|]*\|([^|]*)\|[^|]+\|$", PAGE.read_text(), re.MULTILINE)
}


def models_in(annotation: Any) -> list[type[BaseModel]]:
    found = [annotation] if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []
    for inner in (*getattr(annotation, "__args__", ()), getattr(annotation, "__origin__", None)):
        if inner is not None:
            found += models_in(inner)
    return found


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    """Every key of the job file by its path in the reference; offsets by time stand in a table of their own."""
    between = {"transform": "[].", "partition_by": "[].", "routes": ".*."}
    for name, info in fields_by_key(model).items():
        if info.json_schema_extra == {"readOnly": True}:
            continue  # not a job file's, but a pinned job's
        yield prefix + name, info
        if not name.endswith("_offsets") and prefix + name != "decode.key":  # has the keys of decode.value
            for inner in models_in(info.annotation):
                yield from fields(inner, prefix + name + between.get(name, "."))


FIELDS = dict(fields(Job))


def test_every_key_is_documented_and_no_other() -> None:
    assert set(ROWS) == set(FIELDS)
    assert len(FIELDS) > 35


@pytest.mark.parametrize("path", [path for path, info in FIELDS.items() if not path.startswith("transform[]")])
def test_defaults_are_told(path: str) -> None:
    info, told = FIELDS[path], ROWS[path]
    if path in ("run", "spark", "airflow.execution", "reporting"):
        assert told == "see below"
    elif path == "group_commit":
        assert told == "`transactional` with a group, else `none`"
    elif path == "decode.value.subject":
        assert told == "`{topic}-value`"
    elif path == "decode.value.unknown_fields":
        assert told == "`add` with a registry, else `ignore`"
    elif path == "decode.value.unavailable":
        assert told == "`mark` in new tables"
    elif info.is_required():
        assert told == "required"
    else:
        default = info.get_default(call_default_factory=True)
        assert same(default, told)


def same(default: Any, told: str) -> bool:
    if default is None:
        return told == "–"
    told = told.strip("`")
    if isinstance(default, timedelta):
        return parse_duration(told) == default
    plain = {(): "[]", "{}": "{}"}.get(default if isinstance(default, tuple) else str(default), str(default))
    return told == (plain.lower() if isinstance(default, bool) else plain)


EXAMPLES = [
    textwrap.dedent(block)
    for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", PAGE.read_text(), re.MULTILINE)
    if "version: 1" in block
]


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_the_examples_load(tmp_path: Path, example: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(example)
    assert load_job(file, env={"CLIENT_ID": "x"}).name == "orders"


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


def test_properties_that_have_their_own_place_are_listed() -> None:
    text = PAGE.read_text()
    assert [key for key in _ELSEWHERE if f"`{key}`" not in text] == []


def client_properties() -> dict[str, str]:
    """The rows of the section `kafka`: name to default."""
    section = PAGE.read_text().split("### `kafka`")[1].split("\n### ")[0]
    return dict(re.findall(r"^\| `([a-z.]+)` \| ([^|]*) \|", section, re.MULTILINE))


def test_every_client_property_is_listed_and_no_other() -> None:
    assert set(client_properties()) == set(_PROPERTIES)


@pytest.mark.parametrize("name", _PROPERTIES)
def test_the_defaults_of_client_properties_are_those_of_the_client(name: str) -> None:
    differently = {
        "bootstrap.servers": "required",
        "client.id": "`kseg-<name>`",
        "client.dns.lookup": "`use_all_dns_ips`",  # the only value
    }
    field = _PROPERTIES[name].field
    default = getattr(ClientConfig((), "c"), field) if field is not None else None
    told = f"`{default}`" if default not in (None, "", ()) else "–"
    assert client_properties()[name] == differently.get(name, told)
