"""``kseg registry`` finds again what an earlier command started, with its schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import light_java
from kseg.client.registry.config import RegistryConfig
from kseg.client.registry.errors import SchemaNotFound, SchemaRegistryError
from kseg.client.registry.registry import SchemaRegistry
from kseg.client.registry.schemas import Reference, Schema
from kseg.jobs.cli import cli

CUSTOMER = Schema('{"type":"record","name":"C","namespace":"n","fields":[{"name":"id","type":"long"}]}')
ORDER = '{"type":"record","name":"Order","fields":[{"name":"id","type":"%s"},{"name":"customer","type":"n.C"}]}'


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["registry", *arguments])


def _json(*arguments: str) -> dict[str, Any]:
    result = _run(*arguments, "--json")
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.broker
def test_schemas_are_registered_found_and_outlive_a_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in light_java.JAVA.items():
        monkeypatch.setenv(name, value)
    where = str(tmp_path / "registry")
    assert _run("status", "--dir", where).exit_code == 1
    assert "was not running" in _run("stop", "--dir", where).stdout
    started = _json("start", "--dir", where)
    try:
        assert started["started"] is True
        assert _json("status", "--dir", where) == {**_without_started(started), "running": True}
        again = _json("start", "--dir", where)
        assert (again["started"], again["pid"]) == (False, started["pid"])
        with SchemaRegistry(RegistryConfig.from_properties({"url": started["url"]})) as registry:
            _use(registry)
    finally:
        assert "is stopped" in _run("stop", "--dir", where).stdout
    assert _run("status", "--dir", where).exit_code == 1

    restarted = _json("start", "--dir", where)
    try:
        assert restarted["url"] == started["url"]
        with SchemaRegistry(RegistryConfig.from_properties({"url": restarted["url"]})) as registry:
            assert registry.versions("orders-value") == [1]
    finally:
        _run("stop", "--dir", where)


def _use(registry: SchemaRegistry) -> None:
    """Everything that this client asks of a registry, of a real one."""
    registry.register("customers", CUSTOMER)
    order = Schema(ORDER % "long", references=(Reference("n.C", "customers", 1),))
    number = registry.register("orders-value", order)
    assert registry.register("orders-value", order) == number
    assert sorted(registry.subjects()) == ["customers", "orders-value"]
    found = registry.schema(number)
    assert (found.text, found.references, found.hash) == (order.text, order.references, order.hash)
    assert registry.latest("orders-value") == registry.version("orders-value", 1)
    assert [name for name, _ in registry.resolve(found).references] == ["n.C"]
    assert registry.incompatibilities("orders-value", order) is None
    with pytest.raises(SchemaNotFound, match="40403"):
        registry.schema(number + 1000)
    with pytest.raises(SchemaNotFound, match="40401"):
        registry.versions("nobody")
    with pytest.raises(SchemaRegistryError, match="42201"):
        registry.register("bad", Schema("{"))


def _without_started(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "started"}
