"""Triggers for a running driver: they poll it, and distinguish a stop by a user from a restart."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

from kseg_airflow.compat import BaseTrigger, TriggerEvent, triggers_tell_kills
from kseg_airflow.drivers.handles import Handle, handle_of
from kseg_airflow.drivers.local import LocalDriver
from kseg_airflow.exit_codes import RETRIABLE
from kseg_airflow.run_folder import RunFolder

#: Seconds after which an open interval is checked again, even if the last check named a later time.
LONGEST_PAUSE: Final = 300.0

#: No trigger fires in its first seconds. The scheduler may fail a deferred task if its trigger fires before the
#: scheduler has noticed that the task's process has ended (apache/airflow#67287, #72716: still so in Airflow 3.3).
FIRST_EVENT: Final = 5.0
_SECONDS_BETWEEN_LINES: Final = 30.0
#: How often in a row a cluster may fail to answer.
FAILED_LOOKS: Final = 30
#: Numbers of threads. files: for reading files and processes, which takes a millisecond. clusters: for requests to
#: clusters, which may take half a minute.
_THREADS: Final = {"files": 4, "clusters": 32}

T = TypeVar("T")


@cache
def _threads(kind: str) -> ThreadPoolExecutor:
    """Thread pools that only our triggers use. The event loop's default pool has few threads (processors + 4), which
    all triggers and Airflow share. Because of the two pools, a cluster that does not respond does not delay polling
    local drivers."""
    return ThreadPoolExecutor(_THREADS[kind], thread_name_prefix=f"kseg-{kind}")


async def _in_thread(handle: Handle, asked: Callable[[], T]) -> T:
    kind = "files" if isinstance(handle, LocalDriver) else "clusters"
    return await asyncio.get_running_loop().run_in_executor(_threads(kind), asked)


class KsegRunTrigger(BaseTrigger):
    """Polls one driver until it has ended.

    handle: as `Handle.to_json` wrote it. folder: the task instance's run folder. kill_grace: seconds that a driver has
    to shut down when a user stops the task. follower: the try of the task that is deferred.
    """

    def __init__(
        self,
        handle: dict[str, Any],
        poll_interval: float = 2.0,
        kill_grace: float = 30.0,
        folder: str | None = None,
        follower: str = "",
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.handle = handle
        self.poll_interval = poll_interval
        self.kill_grace = kill_grace
        self.folder = folder
        self.follower = follower

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The state with which another triggerer continues."""
        return (
            "kseg_airflow.triggers.KsegRunTrigger",
            {
                "handle": self.handle,
                "poll_interval": self.poll_interval,
                "kill_grace": self.kill_grace,
                "folder": self.folder,
                "follower": self.follower,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yields one event: {"outcome": …} when the driver has ended; {"problem": …} if its status could not be read;
        {"unseen_on": host} if the run folder on this host is not the one that the task has written.
        """
        began = time.monotonic()
        try:
            async for event in self._watch():
                if (early := began + FIRST_EVENT - time.monotonic()) > 0:
                    await asyncio.sleep(early)
                yield event
        except asyncio.CancelledError:
            # A trigger without `on_kill` is not notified when a user stops its task: this looks like a restart of the
            # triggerer.
            if not triggers_tell_kills() and await asyncio.to_thread(_task_has_ended, self):
                await self.on_kill()
            raise

    async def on_kill(self) -> None:
        """Called when a user fails, clears or ends the deferred task: stops the driver and what the driver started."""
        if self.folder is None:
            return
        handle, folder = handle_of(self.handle), RunFolder(Path(self.folder))
        if not await asyncio.to_thread(folder.stop_by, self.follower, self.handle):
            self.log.info(
                "The task was stopped by a user. Another try of the task follows the driver, which continues."
            )
            return
        self.log.info("The task was stopped by a user: stopping its driver.")
        stop = getattr(handle, "astop", None)
        # In the loop's default pool: a stop may take all of kill_grace, and must not delay polling of other drivers.
        gone = await (stop(self.kill_grace) if stop is not None else asyncio.to_thread(handle.stop, self.kill_grace))
        if not gone:
            self.log.warning("The driver was asked to stop, but has not ended yet.")

    async def _watch(self) -> AsyncIterator[TriggerEvent]:
        handle = handle_of(self.handle)
        if self.folder and await asyncio.to_thread(RunFolder(Path(self.folder)).record) is None:
            yield TriggerEvent({"unseen_on": socket.gethostname()})
            return
        said, said_at, failed = None, 0.0, 0
        while True:
            outcome, line = None, None
            try:
                look = getattr(handle, "alook", None)
                outcome, line = await (look() if look is not None else _in_thread(handle, handle.look))
                failed = 0
            except OSError as error:  # the status cannot be read at the moment
                failed += 1
                self.log.warning("cannot get the driver's status: %s", error)
                if failed >= FAILED_LOOKS:
                    yield TriggerEvent({"problem": str(error)})
                    return
            if outcome is not None:
                yield TriggerEvent({"outcome": outcome.to_json()})
                return
            new_phase = line is not None and (said is None or line.partition(":")[0] != said.partition(":")[0])
            if (
                line is not None
                and line != said
                and (new_phase or time.monotonic() - said_at >= _SECONDS_BETWEEN_LINES)
            ):
                said, said_at = line, time.monotonic()
                self.log.info("kseg: %s", line)
            await asyncio.sleep(self.poll_interval)


def _task_has_ended(trigger: BaseTrigger) -> bool:
    """Airflow 2: whether the task is no longer deferred, which shows that a user caused this cancellation."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from airflow.utils.state import TaskInstanceState

    ours = trigger.task_instance
    if ours is None:
        return False
    with create_session() as session:
        found = (
            session.query(TaskInstance.state)
            .filter_by(dag_id=ours.dag_id, task_id=ours.task_id, run_id=ours.run_id, map_index=ours.map_index)
            .one_or_none()
        )
    return found is None or found[0] != TaskInstanceState.DEFERRED


class KsegIntervalTrigger(BaseTrigger):
    """Runs `kseg interval` again and again, until the interval is closed or an error occurs that needs a user.

    pause: seconds until the first check; each response sets the next pause.
    """

    def __init__(
        self,
        command: list[str],
        env: dict[str, str],
        cwd: str | None = None,
        kafka_conn_id: str | None = None,
        pause: float = 60.0,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.command = command
        self.env = env
        self.cwd = cwd
        self.kafka_conn_id = kafka_conn_id
        self.pause = pause

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """The state with which another triggerer continues."""
        return (
            "kseg_airflow.triggers.KsegIntervalTrigger",
            {
                "command": self.command,
                "env": self.env,
                "cwd": self.cwd,
                "kafka_conn_id": self.kafka_conn_id,
                "pause": self.pause,
            },
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event when waiting is over: {"outcome": …}."""
        from kseg_airflow.asking import ask_async
        from kseg_airflow.connections import async_properties_of_connection

        pause = max(self.pause, FIRST_EVENT)
        while True:
            await asyncio.sleep(max(pause, 1.0))
            properties = await async_properties_of_connection(self.kafka_conn_id) if self.kafka_conn_id else {}
            outcome = await ask_async(self.command, env=self.env, cwd=self.cwd, properties=properties)
            if outcome.exit_code != RETRIABLE:
                yield TriggerEvent({"outcome": outcome.to_json()})
                return
            answer = outcome.document or {}
            pause = min(float(answer.get("retry_after") or self.pause), LONGEST_PAUSE)
            self.log.info("the interval is still open; checking again in %.0f s", pause)
