"""An Airflow as production has it: CeleryExecutor with two workers that share no run folder, Redis between, PostgreSQL.

Both workers are on this machine, but each has a KSEG_RUN_DIR of its own and knows nothing of the other's drivers.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from airflow_process import PARTS, SETTINGS, free_port, wait_for
from airflow_rest import RunningAirflow

WORKERS = ("worker-a", "worker-b")


def redis_server() -> str | None:
    """The program, Debian's `redis-server`; None where it is not installed."""
    return shutil.which("redis-server")


class Redis:
    """A Redis in memory alone; running when this is made."""

    def __init__(self, home: Path) -> None:
        self.port = free_port()
        words = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        program = redis_server()
        assert program is not None
        with (home / "redis.log").open("ab") as log:
            self._process = subprocess.Popen([program, *words, "--dir", str(home)], stdout=log, stderr=log)
        wait_for(self._answers, "Redis answers", timeout=60)

    def url(self, database: int) -> str:
        return f"redis://127.0.0.1:{self.port}/{database}"

    def _answers(self) -> bool:
        import redis

        client = redis.Redis(port=self.port)
        try:
            return bool(client.ping())
        except redis.ConnectionError:
            return False
        finally:
            client.close()

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(60)


class CeleryAirflow(RunningAirflow):
    """All parts of `RunningAirflow`, and two Celery workers."""

    parts: ClassVar[dict[str, list[str]]] = PARTS | {name: [] for name in WORKERS}
    settings: ClassVar[dict[str, str]] = SETTINGS | {
        "CORE__EXECUTOR": "CeleryExecutor",
        "CORE__PARALLELISM": "8",
        "CELERY__WORKER_CONCURRENCY": "2",
        "CELERY__WORKER_PREFETCH_MULTIPLIER": "1",
        "CELERY__SYNC_PARALLELISM": "1",
        # What a killed worker had taken from Redis, and not begun.
        "SCHEDULER__TASK_QUEUED_TIMEOUT": "90",
        "SCHEDULER__TASK_QUEUED_TIMEOUT_CHECK_INTERVAL": "10",
        # Nothing waits for a new DAG file here, and a dozen processes share the machine.
        "DAG_PROCESSOR__REFRESH_INTERVAL": "10",
        "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "1",
        # A busy machine's processes start slowly, and none of them is to be taken for dead that lives.
        "CELERY__OPERATION_TIMEOUT": "60",
    }

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None) -> None:
        self._redis = Redis(home)
        super().__init__(home, environment)
        self.environment |= {
            "AIRFLOW__CELERY__BROKER_URL": self._redis.url(0),
            "AIRFLOW__CELERY__RESULT_BACKEND": self._redis.url(1),
        }

    def words(self, part: str) -> list[str]:
        if part not in WORKERS:
            return super().words(part)
        mark = self.home / f"{part}.pid"
        mark.unlink(missing_ok=True)  # of one that was killed
        quiet = ["--skip-serve-logs", "--without-gossip", "--without-mingle"]
        return ["celery", "worker", "--celery-hostname", f"{part}@%h", "--pid", str(mark), *quiet]

    def environment_of(self, part: str) -> dict[str, str]:
        return self.environment | ({"KSEG_RUN_DIR": str(self.run_dir(part))} if part in WORKERS else {})

    def run_dir(self, worker: str) -> Path:
        """A worker's own run folder."""
        return self.home / f"{worker}-runs"

    def stop(self) -> None:
        super().stop()
        self._redis.stop()
