"""States that lead to refusals, by name, and what a person can do in each (`data/remedies.toml` of the exactly-once
tests). A state is a job and all that belongs to it: `Home` of tests/etl/exactly_once/conftest.py."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kseg.etl.ledger import events as ev
from kseg.etl.ledger.lease import acquire

Address = tuple[str, int, int]


@dataclass
class State:
    """values: what the names in printed commands stand for. person: what a person can do, by its words.

    lost: how many of the first records no run could read. at_end: what has to be closed. during: what happens at a step
    of the run (`land:first:before`) that is refused. learn: reads values that this run has made. query: in place of a
    job, a query of `format("kseg")`.
    """

    job: Any
    records: Any
    values: dict[str, str] = field(default_factory=dict)
    person: dict[str, Callable[[], Any]] = field(default_factory=dict)
    lost: int = 0
    at_end: list[Callable[[], Any]] = field(default_factory=list)
    during: tuple[str, Callable[[], Any]] | None = None
    learn: Callable[[], Any] | None = None
    query: Any = None

    def addresses(self) -> list[Address]:
        """Of all rows in the job's tables, whatever columns they have, as often as they are there. A dead letter is no
        row."""
        if self.query is not None:
            return sorted(self.query.rows)
        found: list[Address] = []
        for name in self.job.tables:
            if name.endswith(("dead", "dead_letters")):
                continue
            rows = self.job.table(name).to_pyarrow_table()
            names = ("topic", "partition", "offset")
            if "_kseg_offset" in rows.column_names:
                names = ("_kseg_topic", "_kseg_partition", "_kseg_offset")
            if set(names) <= set(rows.column_names):
                found += zip(*(rows[one].to_pylist() for one in names), strict=True)
        return sorted(found)

    def expected(self) -> list[Address]:
        """All records that were acknowledged, but for the first `lost` of partition 0, which no run could read."""
        rows = self.records.rows(*self.job.topics)
        return [row[:3] for row in rows if row[1] != 0 or row[2] >= self.lost]


Maker = Callable[..., State]
"""From `home`, `records`, a folder of its own, and the fixture that `WITH` names."""
STATES: dict[str, Maker] = {}
WITH: dict[str, str] = {}
"""The further fixture that a state is made with."""
WITH_SPARK: set[str] = set()
"""Those whose runs need Spark. All others run on the local engine."""


def state(maker: Maker) -> Maker:
    STATES[_name(maker)] = maker
    return maker


def state_with_registry(maker: Maker) -> Maker:
    WITH[_name(maker)] = "schema_registry"
    return state(maker)


def state_with_s3(maker: Maker) -> Maker:
    WITH[_name(maker)] = "s3"
    return state(maker)


def state_with_spark(maker: Maker) -> Maker:
    WITH_SPARK.add(_name(maker))
    return state(maker)


def _name(maker: Maker) -> str:
    return maker.__name__.replace("_", " ")


def run_of(job: Any) -> str:
    (run,) = (one.run_id for one in job.state.unfinished_runs())
    return str(run)


def first_table(job: Any) -> Path:
    return Path(job.folder / "lake" / "first")


def landed(home: Any, records: Any, **changes: Any) -> State:
    """A job with one finished run over six records of one partition."""
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic, **changes)
    job.ingest()
    values = {"TOPIC": topic, "TABLE": str(first_table(job)), "FROM": f"{topic}:0:0", "TO": f"{topic}:0:6"}
    return State(job, records, values)


def died(home: Any, records: Any, step: str, **changes: Any) -> State:
    """A job whose first run over six records has died at this step."""
    topic = records.topic(1)
    records.write(topic, 0, 6)
    job = home(topic, **changes)
    job.die(step)
    values = {
        "TOPIC": topic,
        "RUN": run_of(job),
        "TABLE": str(first_table(job)),
        "FROM": f"{topic}:0:0",
        "TO": f"{topic}:0:6",
    }
    return State(job, records, values)


def noted(made: State, *events: ev.Event) -> None:
    with acquire(made.job.ledger, made.job.document["name"]) as lease:
        lease.transition(lambda _: list(events))


def put(source: Path, target: Path) -> Callable[[], None]:
    """Puts a copy in the place of what is there."""

    def carry_out() -> None:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)

    return carry_out
