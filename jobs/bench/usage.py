"""Wall and processor time of a whole process, with all processes that it starts.

    python -m kseg.jobs.bench.usage PROGRAM [ARGUMENT…]      prints JSON: seconds, cpu_seconds, exit_code, output

The command runs below a process that does nothing else. On Linux this process adopts descendants whose parents end
first (`PR_SET_CHILD_SUBREAPER`), as Spark's JVM and its Python workers do, and waits for all of them: a process's times
belong to whoever waits for it. Elsewhere, the times of such descendants are missing.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import Any, Final

_SET_CHILD_SUBREAPER: Final = 36
_LIMIT: Final = 1800


@dataclass(frozen=True, slots=True)
class Usage:
    """seconds: from the start of the process to its end. cpu_seconds: of it and all its descendants. output: stdout."""

    seconds: float
    cpu_seconds: float
    output: str


def usage_of(module: str, *arguments: str) -> Usage:
    """Run a Python module as a process. Raises subprocess.CalledProcessError."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(
        [sys.executable, "-m", __name__, *command], check=True, capture_output=True, text=True, timeout=_LIMIT
    )
    found = json.loads(done.stdout)
    if found["exit_code"]:
        raise subprocess.CalledProcessError(found["exit_code"], command, found["output"], done.stderr)
    return Usage(found["seconds"], found["cpu_seconds"], found["output"])


def main(command: list[str]) -> dict[str, Any]:
    """Run the command, and wait for all of its processes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryFile("w+") as output:  # no pipe: a descendant may hold it open after the command's end
        began = time.perf_counter()
        exit_code = subprocess.run(command, stdout=output, check=False).returncode
        seconds = time.perf_counter() - began
        _wait_for_descendants()
        output.seek(0)
        text = output.read()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "seconds": seconds,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "exit_code": exit_code,
        "output": text,
    }


def _wait_for_descendants() -> None:
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1:])))
