"""Executors that die, sleep and run out of memory on a standalone cluster with speculation: every record lands once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from fault_suite import executors
from fault_suite.world import World
from kseg.jobs.bench.standalone import StandaloneSpark
from skips import full_scale_only


def _allow_large_records(world: World) -> None:
    admin = AdminClient({"bootstrap.servers": world.servers, "log_level": 0})
    entry = ConfigEntry("max.message.bytes", str(2 * executors.LARGE), incremental_operation=AlterConfigOpType.SET)
    asked = [ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry]) for topic in world.job.topics]
    for answer in admin.incremental_alter_configs(asked).values():
        answer.result(60)


@full_scale_only
@pytest.mark.slow
def test_executors(suite: Callable[..., Any], kafka: Any, tmp_path: Path) -> None:
    with StandaloneSpark(tmp_path / "cluster", workers=2, cores=1, memory="512m") as cluster:
        machines = executors.Executors(cluster)
        world = suite(
            kafka.bootstrap_servers,
            executors.LANES,
            machines.perform,
            allowed=executors.ALLOWED,
            source={"max_records_per_task": 200},
            spark=executors.spark_of(cluster),
            prepare=_allow_large_records,
            restore=lambda _: machines.close(),
        )
    assert world.findings.sound, world.findings.examples
    assert world.findings.rows
    assert world.findings.faults
