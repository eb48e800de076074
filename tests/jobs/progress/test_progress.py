"""How far a run is: bars on a terminal, lines in a log, with rates, what is left, and partitions on request."""

from __future__ import annotations

import errno
import io
import re
from collections.abc import Callable

import pytest

from kseg.client import TopicPartition
from kseg.etl.source.range_result import RangeResult
from kseg.etl.telemetry.events import ReadProgress, ReadStarted
from kseg.jobs.progress import Form, progress_for
from kseg.jobs.progress.bars import PARTITIONS_SHOWN, BarProgress
from kseg.jobs.progress.lines import LineProgress
from kseg.jobs.progress.pace import Pace, clock, human


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Sets the clock, in seconds."""
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    return lambda seconds: now.__setitem__(0, seconds)


def reading(done: int, *, of: int = 10, size: int = 100, topic: str = "orders", partition: int = 0) -> ReadProgress:
    """`done` of `of` tasks of `size` offsets have ended, of which half are records of 10 bytes each."""
    ended = (RangeResult(done, topic, partition, size * (done - 1), size * done, data=size // 2),) if done else ()
    return ReadProgress(of, done, size * done, size * done // 2, size * done * 5, ended)


@pytest.mark.parametrize(
    ("form", "terminal", "kind"),
    [
        (None, True, "BarProgress"),
        (None, False, "LineProgress"),
        ("partitions", False, "BarProgress"),
        ("total", False, "BarProgress"),
        ("lines", True, "LineProgress"),
        ("none", True, "SilentProgress"),
    ],
)
def test_the_form_follows_the_stream_unless_it_is_named(form: Form | None, terminal: bool, kind: str) -> None:
    assert type(progress_for(Terminal() if terminal else io.StringIO(), form)).__name__ == kind


def test_a_log_gets_lines(at: Callable[[float], None]) -> None:
    stream = io.StringIO()
    with progress_for(stream) as progress:
        assert isinstance(progress, LineProgress)
        progress.phase("land")
        progress.total(1000)
        progress.advance(100)
        at(11)
        progress.advance(150)
        progress.message("a run was taken up")
    assert stream.getvalue().splitlines() == [
        "kseg: land …",
        "kseg: land: 250 of 1000 rows (25%)",
        "kseg: a run was taken up",
    ]


def test_a_line_of_a_pass_has_its_rate_its_share_and_the_time_left(at: Callable[[float], None]) -> None:
    stream = io.StringIO()
    with progress_for(stream) as progress:
        progress.phase("land")
        progress.total(1000, "offsets")
        progress.event(ReadStarted("land", 10, {TopicPartition("orders", 0): 1000}))
        at(10)
        progress.event(reading(2))
        progress.advance(200)
        at(15)
        progress.advance(0)
        at(20)
        progress.event(reading(2))
        progress.advance(0)
    assert stream.getvalue().splitlines()[1:] == [
        "kseg: land: 200 of 1000 offsets (20%), 100 rows, 10 rows/s, 0.0 MB/s, 2 of 10 tasks, 0:40 left",
        "kseg: land: 200 of 1000 offsets (20%), 100 rows, 5 rows/s, 0.0 MB/s, 2 of 10 tasks, 1:20 left",
    ]


def test_rates_are_those_of_the_last_while(at: Callable[[float], None]) -> None:
    pace = Pace()
    pace.began(ReadStarted("land", 10, {TopicPartition("orders", 0): 1000}))
    assert pace.seconds_left is None
    for done in range(1, 4):  # a task every 100 seconds, and then one each second
        at(100 * done)
        pace.reading(reading(done))
    for done in range(4, 9):
        at(300 + done - 3)
        pace.reading(reading(done))
    assert pace.rates[0] > 2 * 800 / 305, "much more than since the beginning"
    assert pace.seconds_left == pytest.approx(pace.left / pace.rates[0])
    assert pace.left == 200


@pytest.mark.parametrize(("number", "told"), [(0, "0"), (950, "950"), (12_345, "12.3k"), (4.5e6, "4.5M"), (1e9, "1G")])
def test_counts_are_short(number: float, told: str) -> None:
    assert human(number) == told


@pytest.mark.parametrize(("seconds", "told"), [(None, "?"), (0, "0:00"), (42.4, "0:42"), (3723, "1:02:03")])
def test_durations_are_clocks(seconds: float | None, told: str) -> None:
    assert clock(seconds) == told


def shown(stream: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def test_a_terminal_gets_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    stream = Terminal()
    with progress_for(stream) as progress:
        assert isinstance(progress, BarProgress)
        progress.advance(5)
        progress.phase("plan")
        progress.phase("land")
        progress.total(1000, "offsets")
        progress.event(ReadStarted("land", 10, {TopicPartition("orders", 0): 1000}))
        progress.event(reading(2))
        progress.advance(200)
        progress.message("[red]a run was taken up[/red]")
    told = shown(stream)
    assert "[red]a run was taken up[/red]" in told
    assert "20%" in told
    assert "100 rows" in told
    assert "lag 800" in told
    assert "orders" not in told


def test_partitions_have_bars_of_their_own_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setenv("LINES", "60")
    stream = Terminal()
    totals = {TopicPartition("orders", p): 100 * (p + 1) for p in range(PARTITIONS_SHOWN + 1)}
    with progress_for(stream, "partitions") as progress:
        progress.phase("land")
        progress.total(sum(totals.values()), "offsets")
        progress.event(ReadStarted("land", 300, totals))
        progress.event(reading(1, partition=20))
        progress.advance(100)
    told = shown(stream)
    assert "orders-20" in told
    assert "lag 2k" in told, "2,100 offsets, of which 100 were read"
    assert "orders-0 " not in told, "the smallest of many has no bar"


def test_a_log_on_a_full_disk_ends_no_run() -> None:
    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    progress = LineProgress(Full())
    progress.phase("land")
    progress.message("landed")
