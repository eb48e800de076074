"""Steps on the DataFrame: SQL over the rows, Python functions, and errors that name the step by its place."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import DataFrame

from kseg.etl.errors import ConfigurationError
from kseg.etl.rows.names import ROWS_VIEW
from kseg.etl.source.errors import PythonStepError
from kseg.etl.transform.python import PythonStep
from kseg.etl.transform.sql import SqlStep
from kseg.etl.transform.transform import NO_STEPS, Transform

pytestmark = pytest.mark.spark


@pytest.fixture
def rows(spark: Any) -> DataFrame:
    frame: DataFrame = spark.createDataFrame([(1, "a"), (2, "b")], "offset bigint, value string")
    return frame


@pytest.fixture
def module() -> Iterator[str]:
    """An importable module with functions on a DataFrame."""
    made: Any = types.ModuleType("frame_steps_of_a_user")
    made.later = lambda rows: rows.where("offset > 1")
    made.counts = lambda rows: rows.count()
    made.misspelt = lambda rows: rows.column("value")
    made.mistaken = lambda rows: rows.withColumn("value", "text")
    sys.modules[made.__name__] = made
    yield made.__name__
    del sys.modules[made.__name__]


def test_steps_run_in_their_order_each_over_the_rows_of_the_one_before(rows: DataFrame, module: str) -> None:
    steps = (
        SqlStep(f"SELECT *, upper(value) AS up FROM {ROWS_VIEW}", "transform[0].sql"),
        PythonStep(f"{module}:later", "transform[1].python"),
        SqlStep(f"SELECT up, offset FROM {ROWS_VIEW}", "transform[2].sql"),
    )
    out = Transform(NO_STEPS, steps).apply_to_frame(rows)
    assert [tuple(row) for row in out.collect()] == [("B", 2)]
    assert ROWS_VIEW not in [table.name for table in rows.sparkSession.catalog.listTables()]


def test_a_query_that_is_not_valid_is_bad_configuration(rows: DataFrame) -> None:
    with pytest.raises(ConfigurationError, match=ROWS_VIEW) as caught:
        SqlStep(f"SELECT nothing FROM {ROWS_VIEW}", "transform[3].sql").apply(rows)
    assert caught.value.faults[0].path == "transform[3].sql"


@pytest.mark.parametrize(
    ("function", "message"),
    [("missing", "cannot load"), ("counts", "returned int, not a DataFrame")],
)
def test_a_function_that_does_not_work_is_bad_configuration(
    rows: DataFrame, module: str, function: str, message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        PythonStep(f"{module}:{function}", "transform[1].python").apply(rows)
    assert caught.value.faults[0].path == "transform[1].python"


@pytest.mark.parametrize("function", ["misspelt", "mistaken"])
def test_pyspark_called_in_the_wrong_way_is_the_functions_error(rows: DataFrame, module: str, function: str) -> None:
    """PySpark's own exceptions of this kind come from no JVM."""
    with pytest.raises(PythonStepError, match=f"{function} raised") as caught:
        PythonStep(f"{module}:{function}", "transform[1].python").apply(rows)
    assert caught.value.address["step"] == "transform[1].python"
    assert str(caught.value.address["file"]).endswith("test_frame_steps.py")
