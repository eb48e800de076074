"""Spark's own exceptions, as this Spark makes them: what failed, and where in the user's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.errors import ExitCode
from kseg.etl.spark.spark_errors import SparkFailure, spark_failure

pytestmark = pytest.mark.spark


def fail(value: Any) -> str:
    raise ValueError(f"cannot take {value}")


def fail_on_batches(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield from [fail(batch.num_rows)]


def by_udf(spark: Any) -> None:
    from pyspark.sql.functions import udf

    spark.range(1).select(udf(lambda value: fail(value))("id")).collect()


def by_arrow(spark: Any) -> None:
    spark.range(1).mapInArrow(fail_on_batches, "id long").collect()


def by_rdd(spark: Any) -> None:
    spark.sparkContext.parallelize([1], 1).map(fail).collect()


def by_sql(spark: Any) -> None:
    spark.sql("SELECT 1 / (id - id) FROM range(1)").collect()


def by_the_jvm(spark: Any) -> None:
    spark._jvm.java.lang.Integer.parseInt("no number")


def failure_of(act: Callable[[Any], None], spark: Any) -> SparkFailure:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of Spark's many classes
        act(spark)
    failure = spark_failure(caught.value)
    assert failure is not None, repr(caught.value)
    return failure


@pytest.mark.parametrize("act", [by_udf, by_arrow, by_rdd])
def test_python_code_that_failed_is_named_with_its_place(spark: Any, act: Callable[[Any], None]):
    failure = failure_of(act, spark)
    assert failure.message.startswith("Python code failed in Spark: ValueError: cannot take ")
    assert Path(str(failure.address["file"])).name == Path(__file__).name
    assert (failure.address["function"], failure.exit_code) == ("fail", ExitCode.FAILED)


def test_an_error_condition_of_sparks_is_one_line(spark: Any):
    failure = failure_of(by_sql, spark)
    assert failure.message.startswith("Spark failed: [DIVIDE_BY_ZERO] Division by zero.")
    assert "\n" not in failure.message


def test_any_other_exception_of_the_jvm_is_its_own_first_line(spark: Any):
    failure = failure_of(by_the_jvm, spark)
    assert failure.message == 'Spark failed: For input string: "no number"'


def test_an_error_of_ours_is_none_of_sparks():
    assert spark_failure(ValueError("x")) is None
