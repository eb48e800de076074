"""Reads of brokers and tables what a decision on a chain's next step needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kseg.etl.config.job import Job
from kseg.etl.ledger.state import JobState, RunState
from kseg.etl.planning.plan import PlanInputs
from kseg.etl.planning.preflight import check_again, examine_tables
from kseg.etl.run.abandon import landed_tables
from kseg.etl.run.context import JobContext


def _no_inputs(state: JobState) -> PlanInputs:
    raise AssertionError("an unfinished run is decided on without inputs of a plan")


@dataclass(frozen=True, slots=True)
class LiveView:
    """Implements `etl.run.next_step.View`. read: reads the inputs of a plan."""

    context: JobContext
    read: Callable[[JobState], PlanInputs] = _no_inputs

    @property
    def job(self) -> Job:
        return self.context.job

    @property
    def copy(self) -> bool:
        return self.context.inputs.copy

    def has_landed(self, run: RunState) -> bool:
        return any(True for _ in landed_tables(self.context, run))

    def check(self, state: JobState, run: RunState) -> None:
        check_again(self.context.inputs, state)
        examine_tables(self.context.inputs, state, run.chain, run.plan.tables)

    def inputs(self, state: JobState) -> PlanInputs:
        return self.read(state)
