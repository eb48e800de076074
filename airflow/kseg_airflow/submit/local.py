"""submit="local": `kseg …` as a process of its own on this machine; Spark's master is what the job file says."""

from __future__ import annotations

from kseg_airflow.drivers.handles import Handle
from kseg_airflow.drivers.local import start
from kseg_airflow.submission import Submission


def submit(submission: Submission) -> Handle:
    """Start it. Raises DriverAlive, OSError."""
    properties = submission.written_properties()
    arguments = submission.arguments(
        run_file=str(submission.folder / "run.json"), command_config=str(properties) if properties else None
    )
    return start(
        [submission.kseg, *arguments],
        submission.folder,
        env=submission.environment(),
        secrets=properties,
        cwd=submission.cwd,
    )
