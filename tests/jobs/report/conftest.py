"""Runs as a listener is told of them, without a broker: what pages, metrics and events are made from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.etl.config.load import load_job
from kseg.etl.ledger.values import PlannedRange, RunPlan, TableCommit, TableState
from kseg.etl.run.data_freshness import Freshness, PartitionFreshness
from kseg.etl.run.report import RangeReport, RunReport
from kseg.etl.source.cost import TaskCost, TrafficLine
from kseg.etl.source.range_result import RangeResult
from kseg.etl.telemetry import events
from kseg.etl.telemetry.events import PartitionView

JOB = """\
version: 1
name: {name}
kafka:
  bootstrap.servers: "broker-1:9092,broker-2:9092"
  security.protocol: SASL_SSL
  sasl.mechanism: SCRAM-SHA-512
  sasl.username: etl
  sasl.password: "${{KAFKA_PASSWORD}}"
source: {{pattern: ".*"}}
sink: {{path: "./lake/{{topic}}"}}
group: orders-etl
ledger: ./ledger
airflow: {{schedule: "@daily", owner: data-platform}}
reporting: {{openlineage: {{timeout: 5m}}}}
"""
SECRET = "hunter2-is-a-secret"


def _behind(tp: TopicPartition) -> tuple[str | None, float]:
    """Time and age of the oldest record that has not landed: by partition 10 minutes more."""
    return (f"2026-01-01T00:{30 - 10 * tp.partition:02d}:00.000Z" if tp.partition else None), 600.0 * tp.partition


class Told:
    """One run: `facts` in their order, and the document that it ends with. Rows are 40 a task, tasks 50 offsets."""

    def __init__(self, folder: Path, *, topic: str = "orders", partitions: int = 3, mode: str = "incremental") -> None:
        file = folder / "job.yaml"
        file.write_text(JOB.format(name="orders"))
        self.job = load_job(file, env={"KAFKA_PASSWORD": SECRET})
        self.table = str(folder / "lake" / topic)
        self.partitions = [TopicPartition(topic, number) for number in range(partitions)]
        self.plan = RunPlan(
            run_id="3f9c46bd0e0b4b0aa4d3c1a5f00d7e11",
            mode=mode,  # type: ignore[arg-type]
            chain="incremental",
            app_id="kseg",
            app_version=1,
            config_hash="0" * 64,
            pinned_config="{}",
            ranges=tuple(PlannedRange(*tp, 0, 100, table=self.table) for tp in self.partitions),
            topics={},
            cluster_id=None,
            tables={self.table: None},
            asked='{"interval": ["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"]}' if mode == "interval" else "",
        )
        self.attempt: int | None = None  # one that takes the run up
        self.commit = TableCommit(3, 80 * partitions, TableState("id", 3, 1000), files=2, bytes=4096)
        self.report = RunReport(
            "orders",
            self.plan.run_id,
            mode,
            "done",
            [RangeReport(*tp, 0, 100, 80, 10, 10, 0) for tp in self.partitions],
            rows_in=80 * partitions,
            rows_out=80 * partitions,
        )
        lines = [PartitionFreshness(*tp, 100, 20 * tp.partition, *_behind(tp)) for tp in self.partitions]
        late = [str(tp) for tp in self.partitions if tp.partition > 1]
        self.report.freshness = Freshness("2026-01-01T00:30:00.000Z", 900.0, 1200.0, late, 0, lines)

    def outcome_of(self, index: int) -> RangeResult:
        tp = self.partitions[index // 2]
        start = 50 * (index % 2)
        traffic = (TrafficLine("1 (broker-1:9092)", "Fetch", 18, 2, 2, 200, 5000, 0, 1),)
        cost = TaskCost(1_767_225_600.0 + index, 1.5, "worker-1", "worker-1/77", 0, traffic)
        return RangeResult(
            *(index, *tp, start, start + 50),
            data=40,
            control=5,
            aborted=5,
            bytes=5000,
            high_watermark=120,
            last_stable_offset=110,
            throttled=((1, 0.5),),
            cost=cost,
        )

    @property
    def facts(self) -> list[events.RunEvent]:
        tasks = 2 * len(self.partitions)
        outcomes = tuple(self.outcome_of(index) for index in range(tasks))
        return [
            events.JobOpened(self.job, "ledger-1"),
            events.OffsetsObserved({tp: PartitionView(0, 100, 100, None, 0) for tp in self.partitions}),
            events.RunPlanned(self.plan, self.attempt or 1, taken_up=self.attempt is not None),
            events.SparkStarted("local-1", "local[2]", None),
            events.OutputSchema(self.table, {"key": "binary", "value": "binary"}),
            events.ReadStarted("land", tasks, dict.fromkeys(self.partitions, 100)),
            events.ReadProgress(tasks, 1, 50, 40, 5000, outcomes[:1]),
            events.ReadProgress(tasks, tasks, 50 * tasks, 40 * tasks, 5000 * tasks, outcomes[1:], outcomes[:1]),
            events.TableCommitted(self.table, self.commit),
            events.OffsetsObserved({tp: PartitionView(committed=100, frontier=100) for tp in self.partitions}),
        ]

    @property
    def document(self) -> dict[str, Any]:
        return self.report.to_json()


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., Told]:
    """told(topic=…, partitions=…, mode=…): a run."""
    return lambda **how: Told(tmp_path, **how)
