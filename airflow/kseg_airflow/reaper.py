"""Stops a driver for a task that Airflow is about to kill: its supervisor gives five seconds after SIGTERM.

    python -P reaper.py SESSION PID CREATED GRACE SECRETS

PID, CREATED: who is asked first, 0 where there is none. SECRETS: a file that is removed when all are gone.
It is run as a script (with -P: the modules beside it are no top-level ones), and imports no Airflow, which takes
seconds.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path


def main(session: str, pid: str, created: str, grace: str, secrets: str) -> None:
    # By its path: this Python need not find the package.
    spec = importlib.util.spec_from_file_location("kseg_processes", Path(__file__).with_name("processes.py"))
    assert spec is not None
    assert spec.loader is not None
    processes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(processes)
    first = processes.find(int(pid), float(created)) if int(pid) else None
    processes.stop_session(int(session), first, float(grace))
    Path(secrets).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
