"""Which columns of the records a query uses, which it only passes on, and which it does not need, by Spark's plan.

    used      part of any expression, or of an operator that is not known here: crosses to the JVM as it is
    passed    only handed on, under its own or another name, to the query's result, as it is or as text: the cast of
              bytes to a string leaves the bytes as they are
    neither   is not part of the result, and nothing depends on it

Read from the analysed plan, where names, stars, views and functions of the user have become attributes with ids. An
operator passes attributes on if it is listed in `PASSING`: it hands out its children's attributes as they are, and what
its own expressions refer to is used. Of a projection each expression is judged by itself, and an aggregate uses what it
refers to. Everything else (windows, unions, DISTINCT) uses all that it gets.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kseg.etl.transform.plan_warnings import SOURCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
"""Nodes that need no more of their children's attributes than their expressions refer to."""

Plan = Any
"""A logical plan in the JVM."""


class Passed(NamedTuple):
    """A column of the records in a query's result. as_text: its bytes as a string."""

    column: int
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """The use of columns in a query that reads the records once. Columns are positions: of the records, and of the
    query's result.

    path: the plan's nodes from the root to the one that reads the records.
    """

    path: tuple[Plan, ...]
    used: frozenset[int]
    passed: dict[int, Passed]

    @property
    def source(self) -> Plan:
        return self.path[-1]

    @property
    def selects_only(self) -> bool:
        """Whether each record gives one row, and the row has columns of the record alone."""
        inner = all(kind_of(node) in TRANSPARENT | {"Project"} for node in self.path[:-1])
        return inner and len(self.passed) == self.path[0].output().size()


def column_use(frame: DataFrame) -> ColumnUse | None:
    """None: the query does not read the records exactly once, reads them in a subquery, or takes rows from a cache."""
    if _uses_cache(frame):
        return None
    plan = _without_ctes(frame)
    walk = _Walk(_TextCasts(frame))
    walk.visit(plan, ())
    if len(walk.paths) != 1:
        return None
    given = [walk.columns.get(identity(attribute)) for attribute in each(plan.output())]
    passed = {
        place: column for place, column in enumerate(given) if column is not None and column.column not in walk.used
    }
    return ColumnUse(walk.paths[0], frozenset(walk.used), passed)


class _TextCasts:
    """Casts that take bytes for text as they are. Spark decides, since some releases look whether they are UTF-8."""

    def __init__(self, frame: DataFrame) -> None:
        self._jvm = jvm_of(frame)

    def __contains__(self, expression: Any) -> bool:
        if kind_of(expression) != "Cast" or str(expression.dataType()) != "StringType":
            return False
        child = expression.child()
        if kind_of(child) != "AttributeReference" or str(child.dataType()) != "BinaryType":
            return False
        no_utf8 = self._jvm.org.apache.spark.sql.catalyst.expressions.Literal(b"\x80", child.dataType())
        try:
            kept = expression.withNewChildren(scala_seq(self._jvm, [no_utf8])).eval(None)
        except Exception:
            return False
        return kept is not None and bytes(kept.getBytes()) == b"\x80"


class _Walk:
    """columns: by the id of an attribute that is a column of the records, renamed or as text."""

    def __init__(self, text_casts: _TextCasts) -> None:
        self._text_casts = text_casts
        self.columns: dict[int, Passed] = {}
        self.used: set[int] = set()
        self.paths: list[tuple[Plan, ...]] = []

    def visit(self, node: Plan, above: tuple[Plan, ...]) -> None:
        path = (*above, node)
        kind = kind_of(node)
        if kind == "MapInArrow" and str(node.functionExpr().name()) == SOURCE:
            self.paths.append(path)
            self.columns |= {identity(attribute): Passed(place) for place, attribute in enumerate(each(node.output()))}
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
        inner = _Walk(self._text_casts)
        inner.visit(plan, ())
        # Twice each: no path from the root reaches such a node, and nothing can be decided.
        self.paths += inner.paths * 2

    def _project(self, expression: Any) -> None:
        inside = expression.child() if kind_of(expression) == "Alias" else expression
        as_text = inside in self._text_casts
        attribute = inside.child() if as_text else inside
        column = self.columns.get(identity(attribute)) if kind_of(attribute) == "AttributeReference" else None
        if column is None:
            self._use(expression.references())
        else:
            self.columns[identity(expression)] = Passed(column.column, column.as_text or as_text)

    def _use(self, references: Any) -> None:
        for attribute in each(references.toSeq()):
            column = self.columns.get(identity(attribute))
            if column is not None:
                self.used.add(column.column)


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


def _uses_cache(frame: DataFrame) -> bool:
    """Whether a part of the query is cached: Spark finds it by its plan, which must stay as it is."""
    dataframe: Any = frame
    if dataframe.sparkSession._jsparkSession.sharedState().cacheManager().isEmpty():
        return False
    nodes = [dataframe._jdf.queryExecution().withCachedData()]
    while nodes:
        node = nodes.pop()
        if kind_of(node) == "InMemoryRelation":
            return True
        nodes += each(node.children())
    return False


def _without_ctes(frame: DataFrame) -> Plan:
    """The analysed plan, `WITH` parts where they are used: the optimizer does it too, for those that are used once."""
    execution: Any = frame._jdf
    inline = jvm_of(frame).org.apache.spark.sql.catalyst.optimizer.InlineCTE(True, False)
    return inline.apply(execution.queryExecution().analyzed())


def jvm_of(frame: DataFrame) -> Any:
    """py4j's view of the session's JVM."""
    return frame.sparkSession._jvm


def scala_seq(jvm: Any, items: Sequence[Any]) -> Any:
    """A Scala `Seq` of objects of the JVM."""
    return jvm.PythonUtils.toSeq(list(items))
