"""Spark's own exceptions, as this Spark makes them: what failed, and where in the user's code."""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.errors import ExitCode, KsegError
from kseg.etl.source.errors import OutOfMemoryError
from kseg.etl.spark.spark_errors import ExecutorsLost, SparkFailure, spark_failure

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


def take_all(batches: Iterator[Any]) -> Iterator[Any]:
    """Needs 64 MB, where its process may allocate 8 MB more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (8 << 20), hard))
    try:
        for batch in batches:
            bytes(64 << 20)
            yield batch
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def import_all(batches: Iterator[Any]) -> Iterator[Any]:
    """Needs 20 MB for a library, where its process may allocate 1 MB more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 20), hard))
    try:
        for batch in batches:
            importlib.import_module("pyarrow.flight")
            yield batch
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def by_much(spark: Any) -> None:
    spark.range(1).mapInArrow(take_all, "id long").collect()


def by_imports(spark: Any) -> None:
    spark.range(1).mapInArrow(import_all, "id long").collect()


def by_sql(spark: Any) -> None:
    spark.sql("SELECT 1 / (id - id) FROM range(1)").collect()


def by_the_jvm(spark: Any) -> None:
    spark._jvm.java.lang.Integer.parseInt("no number")


def kill_worker(batches: Iterator[Any]) -> Iterator[Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    yield from batches


# Executors are processes of their own only in a cluster, and a process has one SparkContext.
LOSE_EXECUTORS = """
import os, signal, time
from pyspark.sql import SparkSession
from kseg.etl.spark.spark_errors import spark_failure

def kill_executor(batches):
    for batch in batches:
        pid = os.getpid()
        while "java" not in open(f"/proc/{pid}/comm").read():
            pid = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        os.kill(pid, signal.SIGKILL)
        time.sleep(600)
        yield batch

spark = (
    SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", False)
    .config("spark.task.maxFailures", 2).config("spark.executor.memory", "512m").getOrCreate()
)
try:
    spark.range(1).mapInArrow(kill_executor, "id long").collect()
except Exception as error:
    failure = spark_failure(error)
    print(failure.kind, int(failure.exit_code), failure.message, flush=True)
spark.stop()
"""


def failure_of(act: Callable[[Any], None], spark: Any) -> KsegError:
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


@pytest.mark.parametrize(("act", "function"), [(by_much, "take_all"), (by_imports, "import_all")])
def test_python_code_for_which_there_is_no_memory(spark: Any, act: Callable[[Any], None], function: str) -> None:
    failure = failure_of(act, spark)
    assert isinstance(failure, OutOfMemoryError), failure
    assert (failure.exit_code, failure.address["function"]) == (ExitCode.FAILED, function)
    assert "spark.executor.pyspark.memory" in str(failure.remedy)


def test_an_error_condition_of_sparks_is_one_line(spark: Any):
    failure = failure_of(by_sql, spark)
    assert failure.message.startswith("Spark failed: [DIVIDE_BY_ZERO] Division by zero.")
    assert "\n" not in failure.message


def test_any_other_exception_of_the_jvm_is_its_own_first_line(spark: Any):
    failure = failure_of(by_the_jvm, spark)
    assert failure.message == 'Spark failed: For input string: "no number"'


def test_a_worker_that_was_killed_may_be_tried_again(spark: Any):
    """A kernel that ran out of memory kills the largest process. The task was failed for good."""
    failure = failure_of(lambda spark: spark.range(1).mapInArrow(kill_worker, "id long").collect(), spark)
    assert isinstance(failure, ExecutorsLost), failure
    assert (failure.exit_code, failure.retriable) == (ExitCode.RETRIABLE, True)
    assert "Python worker exited unexpectedly" in failure.message


@pytest.mark.timeout(600)
def test_executors_that_were_killed_may_be_tried_again():
    ran = subprocess.run([sys.executable, "-c", LOSE_EXECUTORS], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("ExecutorsLost 4 Spark lost what ran the job: ExecutorLostFailure (executor "), (
        ran.stdout + ran.stderr
    )


def test_what_a_task_raised_is_none_of_these(spark: Any):
    """Also where it has the words: records are of any content."""
    words = "Job aborted due to stage failure: Aborting TaskSet"
    failure = failure_of(lambda spark: spark.sql(f"SELECT CAST('{words}' AS int)").collect(), spark)
    assert isinstance(failure, SparkFailure), failure


def test_an_error_of_ours_is_none_of_sparks():
    assert spark_failure(ValueError("x")) is None


def parse(value: Any) -> str:
    return str(json.loads(f"no JSON: {value}"))


def by_a_library(spark: Any) -> None:
    from pyspark.sql.functions import udf

    spark.range(1).select(udf(lambda value: parse(value))("id")).collect()


def test_the_line_of_the_user_is_named_and_the_step_whose_module_it_is_in(spark: Any):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of Spark's many classes
        by_a_library(spark)
    failure = spark_failure(caught.value, {"transform[2].python": f"{Path(__file__).stem}:by_a_library"})
    assert failure is not None, repr(caught.value)
    assert "JSONDecodeError" in failure.message
    assert (failure.address["function"], failure.address["step"]) == ("parse", "transform[2].python")
    assert Path(str(failure.address["file"])).name == Path(__file__).name
