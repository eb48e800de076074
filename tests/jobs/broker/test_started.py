"""Processes that outlive the command that started them end when they are asked to, and are known to have ended."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from kseg.jobs.broker import started
from kseg.jobs.broker.errors import LocalServerError

FORKS = """
import os, sys, time
child = os.fork()
if child == 0:
    time.sleep(600)
print(child, flush=True)
time.sleep(600)
"""


def test_one_that_its_parent_has_not_asked_for_has_ended() -> None:
    with subprocess.Popen([sys.executable, "-c", FORKS], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        try:
            started.end([child])
            assert child.status() == psutil.STATUS_ZOMBIE
        finally:
            parent.kill()


def test_one_that_does_not_end_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "STOP_TIMEOUT", 0.1)
    monkeypatch.setattr(psutil.Process, "terminate", lambda _: None)
    monkeypatch.setattr(psutil.Process, "kill", lambda _: None)
    with subprocess.Popen(["sleep", "600"]) as process:
        try:
            with pytest.raises(LocalServerError, match=f"process {process.pid} has not ended"):
                started.end([psutil.Process(process.pid)])
        finally:
            process.send_signal(9)
