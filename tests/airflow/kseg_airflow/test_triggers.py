"""Triggers share a triggerer: what one of them waits for must not hold up the others."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from kseg_airflow import triggers
from kseg_airflow.drivers.local import start
from kseg_airflow.drivers.yarn import YarnDriver
from kseg_airflow.triggers import KsegRunTrigger

#: More than the threads that the triggerer's loop has for everybody (processors + 4, at most 32).
MANY = 33


async def first_event(trigger: KsegRunTrigger) -> dict[str, Any]:
    async for event in trigger.run():
        return dict(event.payload)
    raise AssertionError("no event")


def driver(folder: Path, script: str) -> dict[str, Any]:
    folder = folder / "try-1"
    folder.mkdir(parents=True)
    return start(["/bin/sh", "-c", script], folder, env=dict(os.environ)).to_json()


def test_a_cluster_that_does_not_answer_holds_up_no_driver_elsewhere(tmp_path: Path) -> None:
    """Requests to a ResourceManager that hangs took all threads, for half a minute each."""
    submitted = driver(tmp_path / "submit", "exit 0")
    ours = driver(tmp_path / "ours", "exit 0")
    with socket.create_server(("127.0.0.1", 0), backlog=2 * MANY) as silent:  # connects, and says nothing
        manager = f"http://127.0.0.1:{silent.getsockname()[1]}"
        hung = [YarnDriver(submitted, manager, f"tag-{n}", "etl").to_json() for n in range(MANY)]

        async def watch() -> dict[str, Any]:
            waiting = [asyncio.create_task(first_event(KsegRunTrigger(handle, 0.1))) for handle in hung]
            await asyncio.sleep(0.5)
            event = await asyncio.wait_for(first_event(KsegRunTrigger(ours, 0.1)), 20)
            assert not any(task.done() for task in waiting)
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            return event

        event = asyncio.run(watch())
    assert event["outcome"]["exit_code"] == 0


def test_no_trigger_fires_before_the_scheduler_has_noticed_that_its_task_deferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow failed a task whose driver had ended at once ("finished with state success, but the task instance's
    state attribute is queued"). Its scheduler takes a second or two for its round."""
    monkeypatch.setattr(triggers, "FIRST_EVENT", 1.0)
    handle = driver(tmp_path, "exit 0")

    async def watch() -> float:
        began = asyncio.get_running_loop().time()
        await first_event(KsegRunTrigger(handle, 0.1))
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(watch()) >= 1.0
