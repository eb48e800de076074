"""A background thread that sends a member's heartbeats between polls, over its own connections.

It is a daemon thread: a process does not wait for it to exit. `stop` waits for a bounded time; a thread that is blocked
by a broker is left running, and closes its connections afterwards. An exception in the thread is raised by `check`.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod

from kseg.client.cluster.cluster import Cluster


class Background(ABC):
    """Calls `work` at the times that `due` returns. `changed` guards and signals the state that both threads share."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.changed = threading.Condition()
        self._config = cluster.config
        self._users = cluster
        self._stopping = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def due(self) -> float | None:
        """Seconds until `work` is due; None: not until `changed` is notified. Called with `changed` held."""

    @abstractmethod
    def work(self, cluster: Cluster) -> None:
        """Do the work that is due; may block on the network. Called without `changed` held."""

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    def check(self) -> None:
        """Raise the error that ended the thread, if any. Each call raises it: the member cannot continue."""
        if self._error is not None:
            raise self._error

    def stop(self, seconds: float) -> bool:
        """Stop the thread; returns whether it has ended within `seconds`."""
        with self.changed:
            self._stopping = True
            self.changed.notify_all()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def wait(self, seconds: float) -> None:
        """Wait until `changed` is notified, at most `seconds`. Called with `changed` held."""
        self.changed.wait(max(0.0, seconds))

    def _run(self) -> None:
        try:
            with Cluster(self._config, beside=self._users) as cluster:
                while self._wait_for_work():
                    self.work(cluster)
        except BaseException as error:
            with self.changed:
                self._error = error
                self.changed.notify_all()

    def _wait_for_work(self) -> bool:
        with self.changed:
            while not self._stopping:
                pause = self.due()
                if pause is not None and pause <= 0:
                    return True
                self.changed.wait(pause)
        return False


def now() -> float:
    return time.monotonic()
