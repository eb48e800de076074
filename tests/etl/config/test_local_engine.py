"""Job files that only Spark can run, with the engine that has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kseg.etl.errors import Diagnostic

LOCAL = {"run": {"engine": "local"}}


@pytest.mark.parametrize(
    ("needs", "reason"),
    [
        ({"transform": [{"sql": "SELECT * FROM __rows__"}]}, "transform[0].sql is a step"),
        ({"transform": [{"arrow": "m:f"}, {"python": "m:f"}]}, "transform[1].python is a step"),
        ({"sink/cluster_by": ["offset"], "sink/single_driver": True}, "sink.cluster_by needs"),
        ({"sink/widen": True}, "sink.widen needs"),
        ({"sink": {"table": "lake.orders"}}, "the table lake.orders of a catalog"),
        ({"spark/remote": "sc://localhost:15002"}, "the job runs on a Spark Connect server"),
    ],
)
def test_what_needs_spark_is_a_fault_of_the_engine(
    faults: Callable[..., list[Diagnostic]], load: Callable[..., Any], needs: dict[str, Any], reason: str
) -> None:
    [fault] = faults(LOCAL | needs)
    assert fault.path == "run.engine"
    assert fault.message.startswith(f"local cannot run this job: {reason}")
    assert "`engine: auto`" in (fault.remedy or "")
    load({"run": {"engine": "auto"}} | needs)


def test_steps_on_batches_need_no_spark(load: Callable[..., Any]) -> None:
    load(LOCAL | {"transform": [{"arrow": "m:f"}, {"duckdb": "SELECT * FROM __rows__"}]})
