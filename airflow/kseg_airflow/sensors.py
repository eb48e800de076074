"""`KsegIntervalClosedSensor`: waits until a data interval's end is closed, by the job file's `interval:` section."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from kseg_airflow import outcomes
from kseg_airflow.compat import BaseSensorOperator, conf
from kseg_airflow.exit_codes import DONE, RETRIABLE
from kseg_airflow.hooks import KsegHook
from kseg_airflow.operators import DATA_INTERVAL, interval_of
from kseg_airflow.outcomes import Outcome
from kseg_airflow.triggers import LONGEST_PAUSE, KsegIntervalTrigger


class KsegIntervalClosedSensor(BaseSensorOperator):
    """Waits until all records of a data interval have come, by the job's rules (watermark, idle, max wait).

    `kseg interval` is asked: exit 0 is closed, 4 still open; it says itself when to ask again. A broker that is away is
    asked again as well.

    Args:
        job_file: the job file; templated.
        interval: START/END in ISO 8601; the run's data interval where it is not given; templated.
        deferrable: wait in the triggerer.
        kseg, kafka_conn_id, env, cwd: as those of the operators.
    """

    template_fields: Sequence[str] = ("job_file", "interval", "env", "cwd", "kafka_conn_id")
    ui_color = "#fff3d6"

    def __init__(
        self,
        *,
        job_file: str,
        interval: str | None = None,
        kseg: str | None = None,
        kafka_conn_id: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.job_file = job_file
        self.interval = interval if interval is not None else DATA_INTERVAL
        self.kseg = kseg
        self.kafka_conn_id = kafka_conn_id
        self.env = dict(env or {})
        self.cwd = cwd
        self.deferrable = deferrable
        self._pause = self.poke_interval

    def execute(self, context: Any) -> Any:
        """Ask once; wait in the triggerer where the interval is open and the task may be deferred."""
        if not self.deferrable:
            return super().execute(context)
        if not self.poke(context):
            self.defer(
                trigger=KsegIntervalTrigger(
                    command=self._hook().command(*self._words()),
                    env=self.env,
                    cwd=self.cwd,
                    kafka_conn_id=self.kafka_conn_id,
                    pause=self._pause,
                ),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return None

    def execute_complete(self, context: Any, event: Mapping[str, Any]) -> None:
        """The trigger has an answer."""
        self._judge(Outcome(**event["outcome"]))

    def poke(self, context: Any) -> bool:
        """Whether the interval is closed."""
        return self._judge(self._hook().ask(*self._words()))

    def _hook(self) -> KsegHook:
        return KsegHook(self.kseg, self.kafka_conn_id, self.env, self.cwd)

    def _words(self) -> list[str]:
        return ["interval", self.job_file, "--interval", interval_of(self.interval)]

    def _judge(self, outcome: Outcome) -> bool:
        document = outcome.document or {}
        if outcome.exit_code == DONE:
            self.log.info("The interval %s is closed.", self.interval)
            return True
        if outcome.exit_code != RETRIABLE:
            raise outcomes.failure_of(outcome, f"kseg interval {self.job_file}")
        self._pause = min(float(document.get("retry_after") or self.poke_interval), LONGEST_PAUSE)
        for partition in document.get("partitions") or []:
            if not partition.get("closed"):
                self.log.info("%(topic)s:%(partition)s is open: %(reason)s", partition)
        if outcome.error:
            self.log.warning("%s", outcome.error.get("message"))
        return False


__all__ = ["KsegIntervalClosedSensor"]
