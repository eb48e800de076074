"""Spark's accumulator of range results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.accumulators import AccumulatorParam

from kseg.etl.tasks.range_results import Attempts

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.accumulators import Accumulator


class MergedAttempts(AccumulatorParam[Attempts]):
    """Adds maps up by key. Picklable: workers add to a map of their own."""

    def zero(self, value: Attempts) -> Attempts:
        return {}

    def addInPlace(self, value1: Attempts, value2: Attempts) -> Attempts:  # noqa: N802
        value1.update(value2)
        return value1


def new_accumulator(context: SparkContext) -> Accumulator[Attempts]:
    """An accumulator for the tasks of one read."""
    return context.accumulator({}, MergedAttempts())
