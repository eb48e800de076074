"""docs/reference/rows.md has the columns of decoded rows, with their types in Arrow and in Spark."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_type

from kseg.segment_reader.decode.schema import arrow_schema

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "rows.md"
ROW = re.compile(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| [^|]* \|$", re.MULTILINE)
SPARK_NAMES = {"bigint": "long", "smallint": "short"}


def test_every_column_is_there_in_order_with_its_types() -> None:
    rows = [(name, spark.strip(), arrow.strip()) for name, spark, arrow in ROW.findall(PAGE.read_text())]
    schema = arrow_schema(headers=True, provenance=True)
    decoded = rows[: len(schema)]
    assert [name for name, _, _ in decoded] == schema.names
    for name, spark, arrow in decoded:
        kind = schema.field(name).type
        told = from_arrow_type(kind).simpleString()
        assert spark.replace(": ", ":").replace(", ", ",") == SPARK_NAMES.get(told, told), name
        assert arrow.replace("element: ", "item: ") == str(kind).replace("element: ", "item: "), name
