"""A driver's processes are stopped by its session, whichever of them have started by then, and whatever they become."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from kseg_airflow.processes import session_members, stop_session

#: As the shell above a driver: it goes on after a SIGTERM, and starts a process that was not there then.
STARTS_LATE = r"""
trap : TERM
echo up
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done
sleep 600
exit 7
"""

#: As a process between fork and exec, which has its parent's handler of SIGTERM; the program that it becomes has none.
BECOMES_ANOTHER = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: None)
print("up", flush=True)
time.sleep(1)
os.execv("/bin/sleep", ["sleep", "600"])
"""


@pytest.mark.parametrize(
    ("words", "ended"),
    [(["/bin/sh", "-c", STARTS_LATE], 7), ([sys.executable, "-c", BECOMES_ANOTHER], -signal.SIGTERM)],
    ids=["starts late", "becomes another"],
)
def test_a_process_that_could_not_be_asked_to_end_at_first_is_asked_later(words: list[str], ended: int) -> None:
    """It was left alone until the grace was over, and then killed with its lease."""
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as first:
        assert first.stdout is not None
        first.stdout.readline()
        assert stop_session(first.pid, None, grace=60)
        assert first.wait() == ended
        assert not session_members(first.pid)
