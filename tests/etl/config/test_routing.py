"""`sink.route_by`: what may decide into which table a row lands, and what goes with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.sections import Route
from kseg.etl.errors import Diagnostic

A = {"a": {"path": "a"}}
FAULTS = [
    ({"sink": {"path": "a", "route_by": "value"}}, "sink.route_by", "nothing to route rows by", "value.FIELD"),
    ({"sink": {"path": "a", "route_by": "schema.x"}}, "sink.route_by", "nothing to route rows by", "header.NAME"),
    ({"sink": {"path": "a", "route_by": "schema"}}, "sink.route_by", "has no routes", "a table for each value"),
    (
        {"sink": {"route_by": "value.kind", "routes": {"a b": {"path": "a"}}}},
        "sink.route_by",
        "a field of the value, and nothing is decoded",
        "decode: {value",
    ),
    (
        {"decode": {"key": {"format": "string"}}, "sink": {"route_by": "value.kind", "routes": A}},
        "sink.route_by",
        "a field of the value, which `decode` does not decode",
        "add `value:`",
    ),
    (
        {"sink": {"route_by": "header.kind", "routes": {"a": {"table": "b.c"}}}},
        "sink.routes.a.table",
        "a table of a catalog",
        "the table's path",
    ),
    (
        {"sink": {"route_by": "header.kind", "routes": {"a": {"path": "b/{topic}"}}}},
        "sink.routes.a.path",
        "has {topic}",
        "one table",
    ),
    (
        {"sink": {"route_by": "header.kind", "routes": A, "cluster_by": ["topic"], "single_driver": True}},
        "sink.cluster_by",
        "needs Spark's own writer",
        "partition_by",
    ),
    (
        {"sink": {"route_by": "header.kind", "routes": A, "widen": True}},
        "sink.widen",
        "needs Spark's own writer",
        "remove it",
    ),
    (
        {"sink": {"route_by": "header.kind", "routes": {True: {"path": "b"}}}},
        "sink.routes.true",
        "true or false without quotes",
        "in quotes",
    ),
    (
        {"sink": {"route_by": "schema", "routes": {17: {"path": "a"}, "17": {"path": "b"}}}},
        "sink.routes.17",
        "given twice",
        "keep one",
    ),
    (
        {"sink": {"routes": {"*": {"path": "a", "columns": ["key"]}}}},
        "sink.routes.*.columns",
        "routed by something else than their topic",
        "decode: {TOPIC",
    ),
    (
        {"sink": {"route_by": "header.kind", "routes": {"*": {"path": "a", "columns": []}}}},
        "sink.routes.*.columns",
        "is empty",
        "name at least one",
    ),
    (
        {
            "sink": {
                "route_by": "header.kind",
                "routes": {"a": {"path": "b", "columns": ["key", "value"]}, "c": {"path": "b", "columns": ["key"]}},
            }
        },
        "sink.routes.c.columns",
        "differs from the columns of route a",
        "the same columns",
    ),
]


@pytest.mark.parametrize(("changes", "path", "message", "remedy"), FAULTS, ids=range(len(FAULTS)))
def test_each_fault_is_told_alone(
    faults: Callable[..., list[Diagnostic]], changes: dict[str, Any], path: str, message: str, remedy: str
) -> None:
    found = faults(changes)
    assert [fault.path for fault in found] == [path]
    assert message in found[0].message
    assert remedy in (found[0].remedy or "")


@pytest.fixture
def of_sink(load: Callable[..., Job]) -> Callable[..., Job]:
    """of_sink(**sink): the sound job with another sink."""
    return lambda **sink: load({"sink": sink, "ledger": "./ledger"})


def test_routes_may_be_named_after_values_of_anything_in_a_record(of_sink: Callable[..., Job]) -> None:
    routes = {17: {"path": "./a"}, "an order": {"path": "./a"}, "*": {"path": "./b"}}
    sink = of_sink(route_by="header.kind", routes=routes).sink
    assert sink.routed
    assert sink.routing == ("header", "kind")
    assert [*sink.targets] == ["17", "an order", "*"]
    assert sink.tables_of(["orders", "x"]) == (str(sink.targets["17"]), str(sink.targets["*"]))


def test_what_decides_is_part_of_the_hash_unless_it_is_the_topic(of_sink: Callable[..., Job]) -> None:
    by_topic = of_sink(routes={"*": {"path": "./{topic}"}})
    assert not by_topic.sink.routed
    assert len(by_topic.sink.tables_of(["a", "b", "a"])) == 2
    assert of_sink(route_by="topic", routes={"*": {"path": "./{topic}"}}).config_hash == by_topic.config_hash
    hashes = {of_sink(route_by=by, routes={"*": {"path": "./b"}}).config_hash for by in ("topic", "schema", "header.a")}
    assert len(hashes) == 3


def test_columns_of_a_route_are_part_of_the_hash_where_they_are_given(of_sink: Callable[..., Job]) -> None:
    def job(**more: Any) -> Job:
        return of_sink(route_by="header.kind", routes={"a": {"path": "./a", **more}, "*": {"path": "./b"}})

    plain = job()
    assert plain.sink.columns_of(str(plain.sink.targets["a"])) is None
    some = job(columns=["key", "value"])
    assert some.sink.columns_of(str(some.sink.targets["a"])) == ("a", ("key", "value"))
    assert some.sink.columns_of(str(some.sink.targets["*"])) is None
    assert some.config_hash != plain.config_hash
    assert job(columns=None).config_hash == plain.config_hash


def test_a_table_s_columns_are_found_without_a_look_at_all_routes(
    of_sink: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = {f"k{n}": {"path": f"./{n}", "columns": ["key"]} for n in range(50)}
    sink = of_sink(route_by="header.kind", routes={**routes, "*": {"path": "./b"}}).sink
    tables = sink.tables_of(())
    looks: list[Route] = []
    of_route = vars(Route)["target"].fget
    monkeypatch.setattr(Route, "target", property(lambda route: looks.append(route) or of_route(route)))
    assert [sink.columns_of(table) for table in tables] == [*((f"k{n}", ("key",)) for n in range(50)), None]
    assert len(looks) == len(tables)


def test_a_sink_that_is_given_other_routes_knows_their_columns(of_sink: Callable[..., Job]) -> None:
    sink = of_sink(route_by="header.kind", routes={"a": {"path": "./a"}, "*": {"path": "./b"}}).sink
    assert sink.columns_of(str(sink.targets["a"])) is None
    routes = {"z": Route(path=sink.targets["a"].path, columns=("value",))}
    assert sink.model_copy(update={"routes": routes}).columns_of(str(sink.targets["a"])) == ("z", ("value",))


MESSAGES = {"value": {"format": "protobuf", "schema": "registry", "subject": ["shop.Order", "shop.Payment"]}}


def test_messages_of_several_subjects_have_a_route_and_a_table_each(
    load: Callable[..., Job], faults: Callable[..., Any]
) -> None:
    def changes(routes: dict[str, str], decode: Any = MESSAGES, **more: Any) -> dict[str, Any]:
        sink = {"route_by": "schema", "routes": {route: {"path": path} for route, path in routes.items()}}
        return {"registry": {"url": "http://sr"}, "decode": decode, "sink": sink, **more}

    def found(*args: Any, **more: Any) -> list[tuple[str, str]]:
        return [(fault.path, fault.message.partition(",")[0]) for fault in faults(changes(*args, **more))]

    routes = {"shop.Order": "./a", "shop.Payment": "./b"}
    load(changes(routes))
    load(changes({"shop.Order": "./a"}))  # payments are records without a route
    assert found({"shop.Order": "./a", "*": "./b", "7": "./c"}) == [
        ("sink.routes.*", "is not named after a message"),
        ("sink.routes.7", "is not named after a message"),
    ]
    assert found({"shop.Order": "./a", "shop.Payment": "./a"}) == [("sink.routes", "two lead to one table")]
    sql = [{"sql": "SELECT * FROM __rows__"}]
    assert found(routes, transform=sql) == [("transform", "needs columns for all records")]
    assert found({}, sink={"path": "./lake/a"}) == [("sink.route_by", "is not schema")]
    avro = {"value": {"format": "avro", "schema": "registry", "subject": ["a", "b"]}}
    assert found(routes, {"orders": MESSAGES, "*": avro}) == [("decode.*.value", "has columns for all of its records")]
