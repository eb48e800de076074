"""A signal while the main thread waits for the JVM: its exception leaves at once, and nothing takes its place."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.spark.interruption import leave_at_once, own_interrupt

pytestmark = pytest.mark.spark


class Stopped(BaseException):
    """What a handler of a signal raises."""


@pytest.fixture
def stopped_by_signal() -> Iterator[signal.Signals]:
    def stop(*_: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def test_the_wait_for_a_job_ends_and_the_job_goes_on(
    spark: Any, stopped_by_signal: signal.Signals, tmp_path: Path
) -> None:
    context = spark.sparkContext
    leave_at_once(context)
    leave_at_once(context)
    reached, gate = tmp_path / "reached", tmp_path / "gate"

    def wait(rows: Iterator[int]) -> Iterator[int]:
        reached.touch()
        while not gate.exists():
            time.sleep(0.02)
        return rows

    def interrupt() -> None:
        while not reached.exists():
            time.sleep(0.02)
        os.kill(os.getpid(), stopped_by_signal)

    opener = threading.Timer(60, gate.touch)  # a wait for the job's end would end here
    opener.start()
    threading.Thread(target=interrupt).start()
    with pytest.raises(Stopped):
        context.range(1, numSlices=1).mapPartitions(wait).collect()
    assert not gate.exists()
    assert spark.range(3).count() == 3  # by another connection, beside the job
    gate.touch()
    opener.cancel()


def test_a_call_that_fails_on_the_way_out_does_not_take_the_exceptions_place(spark: Any) -> None:
    leave_at_once(spark.sparkContext)
    parse = spark.sparkContext._jvm.java.lang.Integer.parseInt

    def unwind() -> None:
        try:
            raise Stopped
        finally:
            parse("none")

    with pytest.raises(Stopped) as raised:
        unwind()
    assert raised.value.__context__ is None
    with pytest.raises(Exception, match="For input string"):
        parse("none")


def test_closing_a_generator_hides_no_error(spark: Any) -> None:
    leave_at_once(spark.sparkContext)

    def rows() -> Iterator[int]:
        try:
            yield 1
        finally:
            spark.sparkContext._jvm.java.lang.Integer.parseInt("none")

    generator = rows()
    next(generator)
    with pytest.raises(Exception, match="For input string"):
        generator.close()


@pytest.mark.parametrize("before", [signal.SIG_IGN, lambda *_: None, signal.default_int_handler])
def test_a_programs_own_handler_of_ctrl_c_survives_the_start_of_spark(before: Any) -> None:
    def sparks(*_: object) -> None:
        """What SparkContext sets."""

    whole = signal.signal(signal.SIGINT, before)
    try:
        with own_interrupt():
            signal.signal(signal.SIGINT, sparks)
        left = signal.getsignal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, whole)
    assert left is (sparks if before is signal.default_int_handler else before)
