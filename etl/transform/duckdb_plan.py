"""DuckDB's own plan of a query, bound but not optimized (`json_serialize_plan`): whether each row is made of one row,
and which columns are those of the rows as they are.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.rows.names import ROWS_VIEW

if TYPE_CHECKING:
    import duckdb

ROW_WISE: Final = frozenset(
    {
        "LOGICAL_GET",
        "LOGICAL_PROJECTION",
        "LOGICAL_FILTER",
        "LOGICAL_UNNEST",
        "LOGICAL_MATERIALIZED_CTE",
        "LOGICAL_CTE_REF",
    }
)
"""Operators that make rows of one row. A CTE without joins and unions is its query."""

_CALLED_CONSISTENT: Final = frozenset(
    {"current_localtime", "current_localtimestamp", "reservoir_quantile", "vector_type"}
)
"""Functions that DuckDB 1.4 calls consistent: clocks, a sample, and how a batch lies in memory."""

_AGGREGATES_OF_LISTS: Final = frozenset({"aggregate", "array_aggr", "array_aggregate", "list_aggr", "list_aggregate"})
"""Functions that call the aggregate that their second argument names."""

_REFERENCE: Final = "BOUND_REF"

_NAMES: Final = {
    "LOGICAL_AGGREGATE_AND_GROUP_BY": "an aggregate",
    "LOGICAL_ORDER_BY": "ORDER BY",
    "LOGICAL_LIMIT": "LIMIT",
    "LOGICAL_DISTINCT": "DISTINCT",
    "LOGICAL_WINDOW": "a window function",
    "LOGICAL_SAMPLE": "a sample",
    "LOGICAL_UNION": "UNION",
    "LOGICAL_EXCEPT": "EXCEPT",
    "LOGICAL_INTERSECT": "INTERSECT",
    "LOGICAL_CROSS_PRODUCT": "a join or a subquery",
    "LOGICAL_COMPARISON_JOIN": "a join or a subquery",
    "LOGICAL_DELIM_JOIN": "a join or a subquery",
    "LOGICAL_ANY_JOIN": "a join",
    "LOGICAL_DUMMY_SCAN": "a SELECT without FROM",
    "LOGICAL_EXPRESSION_GET": "VALUES",
}


def read_plan(connection: duckdb.DuckDBPyConnection, query: str) -> dict[str, Any]:
    """The document of DuckDB. connection: with a table of the rows' columns. Raises duckdb.Error."""
    row = connection.execute("SELECT json_serialize_plan($1, optimize := false)", [query]).fetchone()
    assert row is not None
    found: dict[str, Any] = json.loads(row[0])
    return found


def inconsistent_functions(connection: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Functions, and aggregates of lists, that may give something else for the same arguments. `error` gives nothing at
    all."""
    rows = connection.execute(
        "SELECT DISTINCT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
    ).fetchall()
    return (frozenset(name for (name,) in rows) | _CALLED_CONSISTENT) - {"error"}


def objection(plans: list[dict[str, Any]], inconsistent: frozenset[str]) -> str | None:
    """Why the plans are not row by row; None where they are."""
    if len(plans) != 1:
        return f"is {len(plans)} statements, not one"
    nodes = list(_nodes(plans[0]))
    operators = [node for node in nodes if str(node.get("type")).startswith("LOGICAL_")]
    for operator in operators:
        kind = operator["type"]
        if kind not in ROW_WISE:
            return f"has {_NAMES.get(kind, kind.removeprefix('LOGICAL_'))}, which takes more than one row"
    scans = [operator for operator in operators if operator["type"] == "LOGICAL_GET"]
    foreign = [scan for scan in scans if (scan.get("function_data") or {}).get("table") != ROWS_VIEW]
    if foreign:
        return f"reads {foreign[0].get('name')}, not {ROWS_VIEW} alone"
    if len(scans) != 1:
        return f"reads {ROWS_VIEW} {len(scans)} times, not once"
    for node in nodes:
        if node.get("expression_class") != "BOUND_FUNCTION":
            continue
        name = node["name"]
        if name in _AGGREGATES_OF_LISTS:
            aggregate = (node["children"][1].get("value") or {}).get("value")
            if aggregate is None:
                return f"calls {name} with an aggregate that is no constant"
            name = str(aggregate).lower()
        if name in inconsistent or (name == "age" and len(node["children"]) == 1):
            return f"calls {name}, which gives something else each time"
    return None


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _nodes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _nodes(inner)


def columns_kept(plans: list[dict[str, Any]]) -> tuple[int | None, ...]:
    """For each column of the query's rows which column of `__rows__` it is, unchanged and of all rows; None where it is
    made. Empty where that cannot be told: filters, UNNEST, a CTE."""
    projections, scan = _chain(plans[0])
    if scan is None or not projections:
        return ()
    found: list[int | None] = list(_scanned(scan))
    for expressions in reversed(projections):
        found = [found[one["index"]] if _is_reference(one) else None for one in expressions]
    return tuple(found)


def columns_read(plans: list[dict[str, Any]], columns: Collection[int]) -> frozenset[int]:
    """The columns of `__rows__` that these of the query's columns need, or all of them where that cannot be told."""
    projections, scan = _chain(plans[0])
    if scan is None:
        scans = [node for node in _nodes(plans) if node.get("type") == "LOGICAL_GET"]
        return frozenset(column for one in scans for column in _scanned(one))
    needed = set(columns)
    for expressions in projections:
        needed = {column for place in needed for column in _references(expressions[place])}
    scanned = _scanned(scan)
    return frozenset(scanned[place] for place in needed)


def _chain(node: dict[str, Any]) -> tuple[list[list[dict[str, Any]]], dict[str, Any] | None]:
    """The expressions of each projection, from the last to the first, and the scan; None where there is more."""
    projections = []
    while node.get("type") == "LOGICAL_PROJECTION" and len(node["children"]) == 1:
        projections.append(node["expressions"])
        node = node["children"][0]
    is_scan = node.get("type") == "LOGICAL_GET" and not (node.get("table_filters") or {}).get("filters")
    return projections, node if is_scan else None


def _scanned(scan: dict[str, Any]) -> list[int]:
    """The columns that a scan gives, in its order. Raises KeyError, TypeError for another release's."""
    return [int(column["index"]) for column in scan["column_indexes"]]


def _references(expression: dict[str, Any]) -> Iterator[int]:
    """The places that an expression reads of the operator below. Raises KeyError where it names a column otherwise."""
    for node in _nodes(expression):
        if node.get("type") == "BOUND_COLUMN_REF":
            raise KeyError(node["type"])
        if _is_reference(node):
            yield int(node["index"])


def _is_reference(node: dict[str, Any]) -> bool:
    return node.get("type") == _REFERENCE
