"""The hard topic is as hard as it says, and the whole demo ends with its one line, or with nothing left running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psutil
import pytest

from kseg.jobs.demo.group import partition_states
from kseg.jobs.demo.hard_topic import HardTopic
from kseg.jobs.demo.verify import read_topic
from long_commands import LIMIT, long_command
from skips import full_scale_only

pytestmark = pytest.mark.broker


def _demo(tmp_path: Path, **how: Any) -> AbstractContextManager[subprocess.Popen[str]]:
    words = ["-m", "kseg.jobs.demo", "--dir", str(tmp_path / "out"), "--scale", "0.05"]
    return long_command(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **how)


def test_the_hard_topic_holds_back_what_is_open_and_frees_it_in_the_next_round(kafka: Any) -> None:
    with HardTopic(kafka.bootstrap_servers, name=f"hard-{os.getpid()}", scale=0.02) as topic:
        topic.create()
        told: list[int] = []
        first = topic.write_round(told.append)
        assert sum(told) == topic.round_size == first.records
        assert first.aborted > 0
        states = partition_states(kafka.bootstrap_servers, "nobody", topic.name, topic.partitions)
        held_back = [state.high_watermark - state.last_stable_offset for state in states]
        assert held_back == [first.open + first.behind_open, 0, 0, 0]
        assert {state.committed for state in states} == {-1}

        second = topic.write_round()
        states = partition_states(kafka.bootstrap_servers, "nobody", topic.name, topic.partitions)
        ends = {state.partition: state.last_stable_offset for state in states}
        rows = read_topic(kafka.bootstrap_servers, topic.name, ends)
        assert rows.num_rows == second.committed - second.behind_open
        headers = rows["headers"].to_pylist()
        assert None in headers
        assert [{"key": "trace", "value": value} for value in (b"1", b"2", b"1")] in headers
        assert {None, b""} <= set(rows["key"].to_pylist()) & set(rows["value"].to_pylist())


@pytest.mark.spark
@pytest.mark.slow
def test_the_demo_ends_with_its_line(tmp_path: Path) -> None:
    with _demo(tmp_path) as process:
        out, _ = process.communicate(timeout=LIMIT)
    last = out.rstrip().splitlines()[-1]
    assert process.returncode == 0, out
    told = re.fullmatch(
        r"demo: OK rows=(\d+) aborted=(\d+) control=(\d+) runs=2 verified=(\d+) orders=(\d+) dead=(\d+)", last
    )
    assert told is not None, out
    rows, aborted, control, verified, orders, dead = map(int, told.groups())
    assert rows == verified > 10_000
    assert aborted > 0
    assert control > 0
    assert (orders, dead) == (1960, 40)
    assert "Redrive, without the expectation: 20 dead letters have become rows" in " ".join(out.split())


@pytest.mark.spark
@pytest.mark.slow
@full_scale_only
@pytest.mark.parametrize(("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_leaves_no_process_behind(tmp_path: Path, number: signal.Signals, exit_code: int) -> None:
    family: dict[int, psutil.Process] = {}
    deadline = time.monotonic() + 200
    with _demo(tmp_path, start_new_session=True) as process:
        # Spark's JVM and Kafka's: then the first run is at work.
        while sum(_is_java(member) for member in family.values()) < 2:
            assert time.monotonic() < deadline
            assert process.poll() is None
            family |= {child.pid: child for child in psutil.Process(process.pid).children(recursive=True)}
            time.sleep(0.2)
        os.killpg(process.pid, number)
        out, _ = process.communicate(timeout=200)
    assert process.returncode == exit_code
    assert out.rstrip().endswith("demo: interrupted; nothing runs any more")
    _, alive = psutil.wait_procs(list(family.values()), timeout=120)
    assert [member.cmdline() for member in alive] == []


def _is_java(process: psutil.Process) -> bool:
    try:
        return process.name() == "java"
    except psutil.NoSuchProcess:
        return False
