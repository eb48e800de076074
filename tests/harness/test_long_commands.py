"""A command whose test gives up on it is interrupted, and not left running."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from long_commands import long_command, printed

WAITS = """
import pathlib, sys, time
try:
    print("ready", flush=True)
    time.sleep(600)
except KeyboardInterrupt:
    pathlib.Path(sys.argv[1]).write_text("ended what it had started")
"""


def test_a_command_is_interrupted_when_its_test_gives_up(tmp_path: Path) -> None:
    told = tmp_path / "told"
    with suppress(ZeroDivisionError), long_command(["-c", WAITS, str(told)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        raise ZeroDivisionError
    assert process.returncode == 0
    assert told.read_text() == "ended what it had started"


def test_what_a_program_prints_is_its_result() -> None:
    assert printed("print(6 * 7)") == "42\n"


def test_a_program_that_fails_shows_its_errors() -> None:
    with pytest.raises(AssertionError, match="no such thing"):
        printed("raise SystemExit('no such thing')")
