"""The outcome of a command that has ended or failed: what pages, metrics and lineage events are made from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from kseg.etl.telemetry.recorder import Telemetry


@dataclass(frozen=True, slots=True)
class CommandOutcome:
    """command: `ingest`, `backfill` … document: what --json prints, of a result or of an error.

    from_ledger: made later, without the measurements of tasks and brokers that only the run itself has. job_name: of a
    job that was not opened.
    """

    command: str
    telemetry: Telemetry
    document: dict[str, Any]
    exit_code: int
    from_ledger: bool = False
    job_name: str | None = None

    KINDS: ClassVar[tuple[str, ...]] = ("records", "control", "aborted", "absent", "quarantined")

    @property
    def error(self) -> dict[str, Any] | None:
        """The error (kind, message, remedy …); None where there was none."""
        error = self.document.get("error")
        return error if isinstance(error, dict) else None

    @property
    def job(self) -> str | None:
        """The job's name; None where its file could not be read."""
        job = self.telemetry.job
        return job.name if job is not None else self.document.get("job") or self.job_name

    @property
    def run_id(self) -> str | None:
        plan = self.telemetry.plan
        return plan.run_id if plan is not None else self.document.get("run")

    @property
    def rows(self) -> int:
        """Rows that the run landed in tables, without quarantined pieces and dead letters."""
        return sum(c.commit.rows for c in self.telemetry.commits.values() if c.has_rows)

    @property
    def is_dry_run(self) -> bool:
        """Whether the run was planned only."""
        return self.document.get("status") == "dry-run"

    @property
    def phases(self) -> dict[str, float]:
        """Seconds by phase, which add up to the time that the command took: as the run's report has them, else as the
        phases began while it worked. `start`: loading code, the job and the ledger; `other`: all else."""
        summed = self.document.get("seconds")
        if summed:
            took, began = self.telemetry.seconds, self.telemetry.phases
            parts = {name: seconds for name, seconds in summed.items() if name != "total"}
            if self.from_ledger:  # which was not there when the command started
                return parts
            if began:
                parts = {"start": began[0][1], **parts}
            return {**parts, "other": max(0.0, took - sum(parts.values()))}
        sums = dict[str, float]()
        ends = [*(at for _, at in self.telemetry.phases[1:]), self.telemetry.seconds]
        for (name, at), end in zip(self.telemetry.phases, ends, strict=True) if self.telemetry.phases else ():
            sums[name] = sums.get(name, 0.0) + end - at
        return sums

    @property
    def requests(self) -> list[tuple[str, str, int, int]]:
        """Broker, API, requests and errors; brokers as they name themselves, without their address."""
        return [
            (line.broker.partition(" ")[0], line.api, line.requests, line.errors) for line in self.telemetry.traffic
        ]

    @property
    def reading_seconds(self) -> float:
        """From the first task's beginning to the last one's end; 0 where none has ended."""
        tasks = self.telemetry.tasks
        if not tasks:
            return 0.0
        return max(task.began + task.seconds for task in tasks) - min(task.began for task in tasks)

    def add_measurements_to(self, document: dict[str, Any]) -> None:
        """Add what was measured to a result's or an error's document; nothing where no work has begun."""
        telemetry, sums = self.telemetry, self.telemetry.sums
        if telemetry.job is None:
            return
        document["traffic"] = [asdict(line) for line in telemetry.traffic]
        document["tasks"] = {
            "planned": telemetry.planned_tasks,
            "ended": sums.tasks,
            "retries": sums.retries,
            "bytes": sums.bytes,
            "seconds": round(sums.seconds, 3),
        }
        document.setdefault("report", None)
