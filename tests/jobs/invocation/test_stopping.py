"""What signals do to a command: the first ends it in order, and none disturbs that end."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kseg.jobs.invocation.failures import TerminatedError
from kseg.jobs.invocation.stopping import stoppable

BOTH = (signal.SIGTERM, signal.SIGINT)


@pytest.fixture(autouse=True)
def _handlers_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in BOTH}
    yield
    assert {number: signal.getsignal(number) for number in BOTH} == before


@contextmanager
def handler_of_sigint(handler: signal.Handlers) -> Iterator[None]:
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("first", "error"), [(signal.SIGTERM, TerminatedError), (signal.SIGINT, KeyboardInterrupt)])
@pytest.mark.parametrize("second", BOTH)
def test_a_second_signal_does_not_disturb_the_end_that_the_first_has_begun(
    first: signal.Signals, error: type[BaseException], second: signal.Signals
) -> None:
    ended = []

    def work() -> None:
        try:
            signal.raise_signal(first)
        finally:
            signal.raise_signal(second)
            signal.raise_signal(second)
            ended.append(True)

    with stoppable() as stop:
        with pytest.raises(error) as raised:
            work()
        assert stop.error is raised.value
    assert ended


def test_what_an_interrupted_call_raises_does_not_hide_the_stop() -> None:
    other = ValueError("the JVM is gone")

    def work() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            raise other

    with stoppable() as stop:
        assert stop.cause_of(other) is other
        with pytest.raises(ValueError, match="gone"):
            work()
        assert isinstance(stop.cause_of(other), TerminatedError)


def test_when_the_work_is_over_signals_come_too_late() -> None:
    with stoppable() as stop:
        stop.too_late()
        for number in BOTH:
            signal.raise_signal(number)
        assert stop.error is None


def test_a_second_ctrl_c_of_a_person_who_has_waited_ends_the_process_at_once() -> None:
    script = (
        "import signal, time\n"
        "from kseg.jobs.invocation import stopping\n"
        "stopping._SAME_KEY = 0\n"
        "with stopping.stoppable():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        time.sleep(600)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], timeout=300).returncode == -signal.SIGINT


def test_a_process_of_a_shells_background_goes_on_ignoring_ctrl_c() -> None:
    with handler_of_sigint(signal.SIG_IGN), stoppable() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.error is None
        with pytest.raises(TerminatedError):
            signal.raise_signal(signal.SIGTERM)


def test_in_another_thread_signals_stay_the_programs_own() -> None:
    seen = []

    def work() -> None:
        with stoppable() as stop:
            seen.append((stop.error, signal.getsignal(signal.SIGTERM)))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, before)]


def test_tracebacks_of_interrupted_libraries_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    shown = logging.StreamHandler(sys.stderr)
    logging.getLogger().addHandler(shown)
    try:
        with stoppable():
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                logging.exception("KeyboardInterrupt while sending command.")
                logging.error("a line of our own")
        logging.exception("after it")
    finally:
        logging.getLogger().removeHandler(shown)
    assert capsys.readouterr().err.splitlines()[:2] == ["a line of our own", "after it"]


def test_on_its_way_out_a_process_keeps_its_exit_code() -> None:
    """A scheduler sends a second signal while the interpreter ends, which takes half a second with Spark."""
    script = (
        "import atexit, os, signal, sys\n"
        "from kseg.jobs import cli\n"
        "atexit.register(lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
        "sys.argv = ['kseg', 'check', 'none.yaml']\n"
        "cli.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=300)
    assert done.returncode == 2
