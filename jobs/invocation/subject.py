"""The job and run that a command works on, as its progress says: for the report of its failure."""

from __future__ import annotations

from kseg.etl.telemetry.events import JobOpened, JobRead, RunEnded, RunEvent, RunPlanned
from kseg.etl.telemetry.progress import NullProgress


class Subject(NullProgress):
    """A listener. job, run: None until they are known. ended: ids of the command's earlier runs, which have ended."""

    def __init__(self) -> None:
        self.job: str | None = None
        self.run: str | None = None
        self.ended: list[str] = []

    def event(self, event: RunEvent) -> None:
        if isinstance(event, JobRead):
            self.job = event.name
        elif isinstance(event, JobOpened):
            self.job = event.job.name
        elif isinstance(event, RunPlanned):
            self.run = event.plan.run_id
        elif isinstance(event, RunEnded):
            self.ended.append(event.document["run"])
            self.run = None
