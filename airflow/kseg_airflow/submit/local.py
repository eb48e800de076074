"""submit="local": `kseg …` as a process of its own on this machine; Spark's master is what the job file says."""

from __future__ import annotations

import contextlib

from kseg_airflow.drivers.handles import Handle
from kseg_airflow.drivers.local import start
from kseg_airflow.submission import Submission, nameless_file, path_of


def submit(submission: Submission) -> Handle:
    """Start it. Raises DriverAlive, OSError."""
    with contextlib.ExitStack() as held:
        handed = held.enter_context(nameless_file(submission.properties_text())) if submission.properties else None
        arguments = submission.arguments(
            run_file=str(submission.folder / "run.json"),
            command_config=path_of(handed) if handed is not None else None,
        )
        return start(
            [submission.kseg, *arguments],
            submission.folder,
            env=submission.environment(),
            handed=[handed] if handed is not None else [],
            cwd=submission.cwd,
        )
