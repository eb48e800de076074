"""A driver's processes are stopped by its session, whichever of them have started by then."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kseg_airflow.processes import session_members, stop_session

#: As the shell above a driver: it goes on after a SIGTERM, and starts a process that has not been there then.
STARTS_LATE = r"""
trap : TERM
echo up
for _ in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; done
sh -c 'trap "echo asked >$0; kill \$!; exit" TERM; sleep 600 & wait' "$1"
"""


def test_a_process_that_starts_after_its_session_was_asked_to_end_is_asked_too(tmp_path: Path) -> None:
    """It was left alone until the grace was over, and then killed with its lease."""
    asked = tmp_path / "asked"
    words = ["/bin/sh", "-c", STARTS_LATE, "sh", str(asked)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        assert stop_session(shell.pid, None, grace=60)
        assert asked.exists()
        assert not session_members(shell.pid)
