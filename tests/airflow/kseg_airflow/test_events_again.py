"""A worker that dies when it has read a driver's result, before Airflow has the task's end and its asset events."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("airflow.sdk")

from kseg_airflow.assets import table_uri
from landed import once, read_table

if TYPE_CHECKING:
    from airflow_rest import RunningAirflow
    from kseg_process import KafkaProcess, Kseg

DAG = """
import os
import signal
from datetime import timedelta
from airflow.sdk import DAG
from kseg_airflow.operators import KsegIngestOperator

class Dies(KsegIngestOperator):
    def execute(self, context):
        result = super().execute(context)
        if context["ti"].try_number == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

with DAG({name!r}, schedule=None, default_args={{"retries": 1, "retry_delay": timedelta(seconds=1)}}):
    Dies(task_id="ingest", job_file={job!r}, run_dir={runs!r}, poll_interval=0.5, deferrable=False)
"""


def test_the_retry_of_a_worker_that_died_with_the_result_in_its_hands_has_the_event(
    airflow: RunningAirflow, kafka: KafkaProcess, kseg: Kseg, lake: Path
) -> None:
    """It was green, and found nothing to do: nothing downstream ever ran."""
    topic = kafka.topic(prefix="again")
    kafka.produce(topic, [{"value": f"v{n}"} for n in range(7)])
    job = lake / "job.yaml"
    job.write_text(
        json.dumps(
            {
                "version": 1,
                "name": topic,
                "kafka": {"bootstrap.servers": kafka.bootstrap_servers},
                "source": {"topics": [topic]},
                "sink": {"path": "./table"},
                "ledger": "./_ledger",
                "group": topic,
                "spark": {"master": "local[1]"},
            }
        )
    )
    dag = DAG.format(name=topic, job=str(job), runs=str(lake / "runs"))
    airflow.add_dag(dag, f"{topic}.py", expect=[topic])
    run = airflow.trigger(topic)
    airflow.wait_for_run(topic, run, timeout=400)
    assert airflow.task(topic, run, "ingest")["try_number"] == 2
    assert read_table(kseg, lake / "table").addresses == once({(topic, 0, n) for n in range(7)})
    [event] = airflow.asset_events(dag=topic)
    assert event["uri"] == table_uri(str(lake / "table"))
    assert event["extra"]["kseg"]["counts"]["records"] == 7
    assert [path.name for path in lake.glob("runs/*/*/ingest/try-*")] == ["try-1"]
