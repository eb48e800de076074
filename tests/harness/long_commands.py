"""Commands that work for minutes and start brokers and Spark sessions: these end with them, whatever ends the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import light_java

#: Seconds. Only a hang takes so long.
LIMIT = 1100


@contextmanager
def long_command(words: list[str], **how: Any) -> Iterator[subprocess.Popen[str]]:
    """Python with `words`; how: options of `Popen`. Where it still runs at the end, because the test fails, it is
    interrupted, and ends what it has started as it does for a user."""
    command, environment = [sys.executable, *words], os.environ | light_java.ALL
    with subprocess.Popen(command, text=True, env=environment, **how) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
                try:
                    process.communicate(timeout=60)
                except subprocess.TimeoutExpired:
                    process.kill()


def printed(program: str) -> str:
    """What a Python program prints."""
    with long_command(["-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, errors[-4000:]
    return out
