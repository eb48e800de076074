"""What of a job's rows each of its tables gets: by the route's `columns`, or by the records that it is named after."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import load_job
from kseg.etl.decoding.kinds import RecordColumns
from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import KSEG_ADDRESS, ROUTE_COLUMN
from kseg.etl.run.sink_rows import check_sink_schemas, sink_schema_of

ADDRESS = [pa.field(name, kind) for name, kind in zip(KSEG_ADDRESS, (pa.string(), pa.int32(), pa.int64()), strict=True)]
FIELDS = [pa.field(name, pa.int64()) for name in ("who", "id", "size", "paid")]
ROWS = pa.schema([*FIELDS, pa.field("day", pa.string()), *ADDRESS, pa.field(ROUTE_COLUMN, pa.string())])
DECODE = {"value": {"format": "avro", "schema": "registry"}}
OURS = [*KSEG_ADDRESS, "_kseg_run"]


@pytest.fixture
def job() -> Callable[..., Job]:
    """job(routes, **sink): a job that decodes and routes by schema. routes: their columns."""

    def make(routes: dict[str, list[str] | None], **sink: Any) -> Job:
        named = {
            route: {"path": f"./{number}", **({"columns": columns} if columns is not None else {})}
            for number, (route, columns) in enumerate(routes.items())
        }
        document = {
            "version": 1,
            "name": "j",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": {"topics": ["orders"], "starting_offsets": "earliest"},
            "group": "g",
            "registry": {"url": "http://127.0.0.1:1"},
            "decode": DECODE,
            "sink": {"route_by": "schema", "routes": named, **sink},
            "ledger": "./ledger",
        }
        return load_job(document, env={})

    return make


def landed(job: Job, route: str, **more: Any) -> list[str]:
    return sink_schema_of(job, ROWS, str(job.sink.targets[route]), **more).columns.names


def test_a_table_gets_the_columns_of_its_route_with_address_and_partitions(job: Callable[..., Job]) -> None:
    made = job({"1": ["size", "id"], "*": None}, partition_by=["day"])
    assert landed(made, "1") == ["id", "size", "day", *OURS]
    assert landed(made, "*") == ["who", "id", "size", "paid", "day", *OURS]


def test_a_table_of_records_gets_their_columns_unless_the_route_says_which(job: Callable[..., Job]) -> None:
    made = job({"shop.Order": None, "shop.Payment": ["paid"], "shop.New": None, "7": None, "*": None})
    records = RecordColumns({"shop.Order": {"id": "id", "size": "size"}, "shop.Payment": {"id": "id", "paid": "paid"}})
    assert {route: landed(made, route, records=records)[: -len(OURS)] for route in made.sink.targets} == {
        "shop.Order": ["id", "size"],
        "shop.Payment": ["paid"],
        "shop.New": [],
        "7": ["who", "id", "size", "paid", "day"],
        "*": ["who", "id", "size", "paid", "day"],
    }


KINDS = pa.schema(
    [
        pa.field("who", pa.string()),
        *(pa.field(f"{name} ({kind})", kind) for name, kind in (("id", pa.int64()), ("day", pa.string()))),
        *(pa.field(f"{name} ({kind})", kind) for name, kind in (("id", pa.string()), ("at", pa.int64()))),
        *ADDRESS,
        pa.field(ROUTE_COLUMN, pa.string()),
    ]
)
OF_KINDS = RecordColumns(
    {
        "shop.Order": {"id": "id (int64)", "day": "day (string)"},
        "shop.Payment": {"at": "at (int64)", "id": "id (string)"},
        "*": {},
    },
    of_kinds=True,
)


def test_a_table_of_a_kind_gets_its_columns_under_their_names_and_in_their_order(job: Callable[..., Job]) -> None:
    made = job({"shop.Order": None, "shop.Payment": None, "*": None}, partition_by=["day"])
    found = {
        route: sink_schema_of(made, KINDS, str(target), records=OF_KINDS) for route, target in made.sink.targets.items()
    }
    assert {route: its.columns.names for route, its in found.items()} == {
        "shop.Order": ["who", "id", "day", *OURS],
        "shop.Payment": ["who", "at", "id", "day", *OURS],
        "*": ["who", "day", *OURS],
    }
    assert [found[route].columns.field("id").type for route in ("shop.Order", "shop.Payment")] == [
        pa.int64(),
        pa.string(),
    ]
    assert dict(found["shop.Payment"].sources) == {"at": "at (int64)", "id": "id (string)", "day": "day (string)"}


def test_the_columns_of_a_route_are_those_of_its_kind(job: Callable[..., Job]) -> None:
    made = job({"shop.Order": ["day", "id"], "shop.Payment": ["day", "at"]})
    found = sink_schema_of(made, KINDS, str(made.sink.targets["shop.Order"]), records=OF_KINDS)
    assert (found.columns.names, dict(found.sources)["id"]) == (["id", "day", *OURS], "id (int64)")
    with pytest.raises(ConfigurationError) as refused:
        sink_schema_of(made, KINDS, str(made.sink.targets["shop.Payment"]), records=OF_KINDS)
    assert [fault.message for fault in refused.value.faults] == ["names the column day, which the rows do not have"]


def test_a_partition_column_that_a_kind_lacks_has_one_type_in_all_others(job: Callable[..., Job]) -> None:
    made = job({"shop.Order": None, "shop.Payment": None, "*": None}, partition_by=["id"])
    with pytest.raises(ConfigurationError, match=r"column id as bigint and string; the table .* lacks it"):
        sink_schema_of(made, KINDS, str(made.sink.targets["*"]), records=OF_KINDS)


def test_a_column_that_no_row_has_is_refused_at_its_route(job: Callable[..., Job]) -> None:
    with pytest.raises(ConfigurationError) as refused:
        check_sink_schemas(job({"1": ["id", "ids", ROUTE_COLUMN], "*": None}), ROWS, "")
    assert [(fault.path, fault.message) for fault in refused.value.faults] == [
        ("sink.routes.1.columns", "names the column ids, which the rows do not have"),
        ("sink.routes.1.columns", f"names the column {ROUTE_COLUMN}, which the rows do not have"),
    ]
    assert refused.value.faults[0].remedy == "one of who, id, size, paid, day"
