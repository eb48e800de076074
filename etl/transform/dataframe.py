"""The DataFrame steps of a job's transform: SQL over `__rows__`, and Python functions DataFrame -> DataFrame.

Arrow steps run in the worker, before rows reach Spark, and live with the source (`etl.source`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kseg.etl.config.sections import PythonStep, SqlStep
from kseg.etl.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_VIEW = "__rows__"


def apply_steps(rows: DataFrame, steps: Sequence[SqlStep | PythonStep]) -> DataFrame:
    """The DataFrame after all steps, in their order; nothing is computed yet.

    Raises:
        ConfigurationError: a step cannot be loaded, is not valid SQL over its rows, or gives no DataFrame.
    """
    for number, step in enumerate(steps):
        rows = _sql(rows, step, number) if isinstance(step, SqlStep) else _python(rows, step, number)
    return rows


def _sql(rows: DataFrame, step: SqlStep, number: int) -> DataFrame:
    from pyspark.errors import AnalysisException, ParseException

    spark = rows.sparkSession
    if not hasattr(spark, "_jvm"):
        return _remote_sql(rows, step, number)
    rows.createOrReplaceTempView(ROWS_VIEW)
    try:
        return spark.sql(step.sql)
    except (AnalysisException, ParseException) as error:
        raise _sql_fault(number, error) from error
    finally:
        # The query is resolved by now: a later step may use the name for its own rows.
        spark.catalog.dropTempView(ROWS_VIEW)


def _remote_sql(rows: DataFrame, step: SqlStep, number: int) -> DataFrame:
    """Over Connect a query is resolved anew each time it is asked for, so its rows travel with it, under their name,
    as those of `spark.sql("… {rows}", rows=rows)` do under one that is made up."""
    from pyspark.errors import AnalysisException, ParseException
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
    from pyspark.sql.connect.plan import SQL, SubqueryAlias

    source: Any = rows
    frame: DataFrame = RemoteFrame(SQL(step.sql, [], {}, [SubqueryAlias(source._plan, ROWS_VIEW)]), source.sparkSession)
    try:
        frame.schema  # noqa: B018 - resolved here, where a fault of it can be told
    except (AnalysisException, ParseException) as error:
        raise _sql_fault(number, error) from error
    return frame


def _sql_fault(number: int, error: Exception) -> ConfigurationError:
    return ConfigurationError.of(
        f"transform[{number}].sql", str(error).split("\n")[0], f"the rows to select from are called {ROWS_VIEW}"
    )


def _python(rows: DataFrame, step: PythonStep, number: int) -> DataFrame:
    from pyspark.sql import DataFrame

    function = load_function(step.python, f"transform[{number}].python")
    result = function(rows)
    if not isinstance(result, DataFrame):
        raise ConfigurationError.of(
            f"transform[{number}].python", f"{step.python} gave {type(result).__name__}, not a DataFrame"
        )
    return result


def load_function(reference: str, path: str) -> Callable[..., Any]:
    """The function behind `module:function`.

    path: where the reference stands in the job file, for the error.
    """
    module_name, _, name = reference.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError) as error:
        raise ConfigurationError.of(
            path, f"cannot load {reference}: {error}", "put the module on PYTHONPATH, or install its package"
        ) from error
    if not callable(function):
        raise ConfigurationError.of(path, f"{reference} is not a function")
    return function  # type: ignore[no-any-return]
