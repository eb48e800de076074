"""A query over the records, of which only the columns that it uses cross to the JVM one by one.

    worker                         JVM                                           worker
    records ─► Crossing ─► used columns, one cell ─► the query, the cell beside it ─► Restoring ─► the query's rows

Which columns are used is read from Spark's analysed plan (`column_use`). That plan is kept as it is, its attributes and
their ids included: the node that reads the records is replaced by one that reads fewer columns, projections let the
cell through, and the result takes it in place of the columns that were only passed on. Nothing of the user's runs
again: a function that looks at its DataFrame's types, or computes something with it, has seen all columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa

from kseg.etl.spark.column_use import TRANSPARENT, ColumnUse, Passed, Plan, each, jvm_of, kind_of, scala_seq
from kseg.etl.spark.row_cells import CELL, can_pack, pack, unpack
from kseg.etl.spark.selection import can_take, taken
from kseg.etl.transform.frame_schema import with_small_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CELLS: Final = "_kseg_cells"


@dataclass(frozen=True, slots=True)
class Crossing:
    """What crosses of the records' columns, by position: these as they are, and those as one cell. Picklable."""

    plain: tuple[int, ...]
    packed: tuple[int, ...]

    def schema(self, rows: pa.Schema) -> pa.Schema:
        """The schema of the columns that cross."""
        cell = [pa.field(CELLS, CELL)] if self.packed else []
        return pa.schema([*(rows.field(column) for column in self.plain), *cell])

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [rows.column(column) for column in self.plain]
        if self.packed:
            arrays.append(pack([rows.column(column) for column in self.packed], rows.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema(rows.schema))


@dataclass(frozen=True, slots=True)
class Restoring:
    """The query's rows from what crosses back: its other columns in their order, then the cell. Picklable.

    packed: of the cell's columns their types. columns: of each column of the result its name, and its place among the
    cell's columns; None: it is the next one of the others.
    """

    packed: tuple[pa.DataType, ...]
    columns: tuple[tuple[str, Passed | None], ...]

    def apply(self, crossed: pa.RecordBatch) -> pa.RecordBatch:
        crossed = with_small_offsets(crossed)
        others = iter(crossed.columns)
        packed: list[pa.Array] = unpack(crossed.column(crossed.num_columns - 1), self.packed) if self.packed else []
        arrays = [next(others) if passed is None else taken(packed, passed) for _, passed in self.columns]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in self.columns])


class RowSource(Protocol):
    """The records as a DataFrame."""

    @property
    def schema(self) -> pa.Schema:
        """The schema of the records."""

    def frame(self, crossing: Crossing | None = None) -> DataFrame:
        """All columns, or what crosses of them."""


def narrowed(frame: DataFrame, use: ColumnUse, source: RowSource) -> tuple[DataFrame, Restoring] | None:
    """The same rows with fewer columns crossing, for a last step that restores them; None where nothing is to gain.

    frame: a query over `source.frame()`, of a session in this process. use: its own.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    result = to_arrow_schema(frame.schema, timezone="UTC")
    passed = {
        place: column
        for place, column in use.passed.items()
        if can_pack(source.schema.field(column.column).type)
        and can_take(source.schema.field(column.column).type, column, result.field(place).type)
    }
    packed = tuple(sorted({column.column for column in passed.values()}))
    plain = tuple(sorted(use.used | {column.column for column in use.passed.values()} - set(packed)))
    if not plain and not packed:
        # A query that only counts rows: a batch without columns would have none.
        plain = (min(range(len(source.schema)), key=lambda column: _cost(source.schema.field(column).type)),)
    if not packed and len(plain) == len(source.schema):
        return None
    crossing = Crossing(plain, packed)
    rewritten = _Rewriting(frame, use).rewritten(source.frame(crossing), crossing, set(passed))
    kinds = {column: source.schema.field(column).type for column in packed}
    kinds |= {column.column: result.field(place).type for place, column in passed.items() if not column.as_text}
    columns = tuple(
        (name, Passed(packed.index(passed[place].column), passed[place].as_text) if place in passed else None)
        for place, name in enumerate(result.names)
    )
    return rewritten, Restoring(tuple(kinds[column] for column in packed), columns)


def _cost(kind: pa.DataType) -> int:
    """Bits of a value, far more for one without a fixed width."""
    try:
        return int(kind.bit_width)
    except ValueError:
        return 1 << 30


class _Rewriting:
    """Makes the plan that reads fewer columns, with the JVM's own classes."""

    def __init__(self, frame: DataFrame, use: ColumnUse) -> None:
        self._session: Any = frame.sparkSession
        self._use = use
        jvm = jvm_of(frame)
        self._sql = jvm.org.apache.spark.sql
        self._catalyst = jvm.org.apache.spark.sql.catalyst
        self._jvm = jvm
        self._none = jvm.scala.Option.empty()

    def rewritten(self, fewer: DataFrame, crossing: Crossing, left_out: set[int]) -> DataFrame:
        """The result's columns but for those left out, and the cell behind them."""
        from pyspark.sql import DataFrame

        reads = fewer._jdf.queryExecution().analyzed()
        given = list(each(reads.output()))
        cell = given[-1] if crossing.packed else None
        plan = self._replaced(0, self._as_before(reads, given, crossing), cell)
        kept = [column for place, column in enumerate(each(self._use.path[0].output())) if place not in left_out]
        plan = self._project(kept, plan, cell)
        rows = self._sql.classic.Dataset.ofRows(self._session._jsparkSession, plan)
        return DataFrame(rows, self._session)

    def _as_before(self, reads: Plan, given: list[Any], crossing: Crossing) -> Plan:
        """All attributes of the node that is replaced; those that do not cross are null, and the optimizer removes
        them."""
        crosses = dict(zip(crossing.plain, given, strict=False))
        columns = []
        for place, attribute in enumerate(each(self._use.source.output())):
            value = crosses.get(place)
            if value is None:
                value = self._catalyst.expressions.Literal(None, attribute.dataType())
            columns.append(
                self._catalyst.expressions.Alias(
                    value, attribute.name(), attribute.exprId(), self._seq([]), self._none, self._seq([])
                )
            )
        return self._project(columns, reads, given[-1] if crossing.packed else None)

    def _replaced(self, depth: int, source: Plan, cell: Any) -> Plan:
        """The plan from this depth of the path, over the new source."""
        path = self._use.path
        node = path[depth]
        if depth == len(path) - 1:
            return source
        below = self._replaced(depth + 1, source, cell)
        kind = kind_of(node)
        if kind in TRANSPARENT:
            return below
        if kind == "Project" and cell is not None:
            return self._project(list(each(node.projectList())), below, cell)
        children = [below if child.equals(path[depth + 1]) else child for child in each(node.children())]
        return node.withNewChildren(self._seq(children))

    def _project(self, columns: Sequence[Any], child: Plan, cell: Any) -> Plan:
        return self._catalyst.plans.logical.Project(self._seq([*columns, *([cell] if cell is not None else [])]), child)

    def _seq(self, items: Sequence[Any]) -> Any:
        return scala_seq(self._jvm, items)
