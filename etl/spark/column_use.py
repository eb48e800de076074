"""Which columns of the records a query uses, which it only passes on, and which it does not need, by Spark's plan.

    used      part of any expression, or of an operator that is not known here: crosses to the JVM as it is
    passed    only handed on, under its own or another name, to the query's result
    neither   is not part of the result, and nothing depends on it

Read from the analysed plan, where names, stars, views and functions of the user have become attributes with ids. An
operator passes attributes on if it is listed in `PASSING`: it hands out its children's attributes as they are, and what
its own expressions refer to is used. Of a projection each expression is judged by itself, and an aggregate uses what it
refers to. Everything else (windows, unions, DISTINCT) uses all that it gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from kseg.etl.transform.plan_warnings import SOURCE

TRANSPARENT: Final = frozenset({"SubqueryAlias", "View", "PipeOperator"})
"""Names of what is below them; the optimizer removes them."""

PASSING: Final = TRANSPARENT | {
    "Filter",
    "Join",
    "Generate",
    "Sort",
    "GlobalLimit",
    "LocalLimit",
    "Offset",
    "Sample",
    "Repartition",
    "RepartitionByExpression",
    "ResolvedHint",
}

BY_REFERENCE: Final = PASSING | {"Aggregate"}
"""What does not need more of its children's attributes than its expressions refer to."""

Plan = Any
"""A logical plan in the JVM."""


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """Of a query that reads the records once. Columns are positions: of the records, and of the query's result.

    path: the plan's nodes from the root to the one that reads the records.
    """

    path: tuple[Plan, ...]
    used: frozenset[int]
    passed: dict[int, int]

    @property
    def source(self) -> Plan:
        return self.path[-1]


def column_use(plan: Plan) -> ColumnUse | None:
    """plan: analysed. None: it does not read the records exactly once, or reads them in a subquery."""
    walk = _Walk()
    walk.visit(plan, ())
    if len(walk.paths) != 1:
        return None
    given = [walk.columns.get(identity(attribute)) for attribute in each(plan.output())]
    passed = {place: column for place, column in enumerate(given) if column is not None and column not in walk.used}
    return ColumnUse(walk.paths[0], frozenset(walk.used), passed)


class _Walk:
    """columns: by the id of an attribute that is a column of the records, nothing but renamed, its position."""

    def __init__(self) -> None:
        self.columns: dict[int, int] = {}
        self.used: set[int] = set()
        self.paths: list[tuple[Plan, ...]] = []

    def visit(self, node: Plan, above: tuple[Plan, ...]) -> None:
        path = (*above, node)
        kind = kind_of(node)
        if kind == "MapInArrow" and str(node.functionExpr().name()) == SOURCE:
            self.paths.append(path)
            self.columns |= {identity(attribute): place for place, attribute in enumerate(each(node.output()))}
            return
        for inner in each(node.subqueries()):
            # What a subquery takes from outside is among the references of the expression that it is part of.
            self._inside(inner)
        children = list(each(node.children()))
        for child in children:
            self.visit(child, path)
        if kind == "Project":
            for expression in each(node.projectList()):
                self._project(expression)
        elif kind in BY_REFERENCE:
            self._use(node.references())
        else:
            for child in children:
                self._use(child.outputSet())

    def _inside(self, plan: Plan) -> None:
        inner = _Walk()
        inner.visit(plan, ())
        # Twice each: no path from the root reaches such a node, and nothing can be decided.
        self.paths += inner.paths * 2

    def _project(self, expression: Any) -> None:
        inside = expression.child() if kind_of(expression) == "Alias" else expression
        column = self.columns.get(identity(inside)) if kind_of(inside) == "AttributeReference" else None
        if column is None:
            self._use(expression.references())
        else:
            self.columns[identity(expression)] = column

    def _use(self, references: Any) -> None:
        for attribute in each(references.toSeq()):
            column = self.columns.get(identity(attribute))
            if column is not None:
                self.used.add(column)


def kind_of(node: Any) -> str:
    """The simple name of a plan's or an expression's class."""
    return str(node.getClass().getSimpleName())


def identity(attribute: Any) -> int:
    """The id of an attribute, which no other of the plan has."""
    return int(attribute.exprId().id())


def each(sequence: Any) -> Iterator[Any]:
    """A Scala `Seq`."""
    for place in range(sequence.size()):
        yield sequence.apply(place)
