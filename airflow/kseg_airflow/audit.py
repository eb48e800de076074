"""`KsegAuditOperator`: compares asset events of landings with ledger, tables and the group's offsets."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from kseg_airflow import outcomes
from kseg_airflow.assets import EXTRA_KEY, job_outlets
from kseg_airflow.compat import AirflowFailException, BaseOperator
from kseg_airflow.exit_codes import DONE
from kseg_airflow.hooks import KsegHook


class KsegAuditOperator(BaseOperator):
    """`kseg audit`: fails for good, and names each difference, where events and state do not agree.

    The job's tables are the task's inlets, and their newest events are what is audited: Airflow hands them to the task.

    Args:
        job_file: the job file; templated, but its tables are those of the file that is there when the DAG is read.
        events: how many of each table's newest events are compared.
        kseg, kafka_conn_id, env, cwd: as those of the other operators.
    """

    template_fields: Sequence[str] = ("job_file", "env", "cwd", "kafka_conn_id")
    template_fields_renderers: ClassVar[dict[str, str]] = {"env": "json"}
    ui_color = "#e8f5e3"

    def __init__(
        self,
        *,
        job_file: str,
        events: int = 1000,
        kseg: str | None = None,
        kafka_conn_id: str | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        inlets: Iterable[Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.audited = job_outlets(job_file, env)
        super().__init__(inlets=[*(inlets or []), *self.audited], **kwargs)
        self.job_file = job_file
        self.events = events
        self.kseg = kseg
        self.kafka_conn_id = kafka_conn_id
        self.env = dict(env or {})
        self.cwd = cwd

    def execute(self, context: Any) -> Any:
        """Ask `kseg audit`; returns its document."""
        extras = self._extras(context["inlet_events"])
        self.log.info("%d landings are reported by the events of %d assets", len(extras), len(self.audited))
        hook = KsegHook(self.kseg, self.kafka_conn_id, self.env, self.cwd)
        with tempfile.TemporaryDirectory(prefix="kseg-") as folder:
            file = Path(folder) / "events.json"
            file.write_text(json.dumps(extras), encoding="utf-8")
            outcome = hook.ask("audit", self.job_file, "--events", str(file))
        if outcome.exit_code != DONE:
            what = f"kseg audit {Path(self.job_file).name}"
            if differences := (outcome.document or {}).get("differences"):
                told = "\n".join(_told(difference) for difference in differences)
                raise AirflowFailException(f"{what}: {len(differences)} difference(s)\n{told}")
            raise outcomes.failure_of(outcome, what)
        return outcome.document

    def _extras(self, inlet_events: Any) -> list[dict[str, Any]]:
        """The events of our assets, the oldest first. One landing in several tables is listed once."""
        told: dict[str, tuple[Any, dict[str, Any]]] = {}
        for asset in self.audited:
            for event in _newest(inlet_events[asset], self.events):
                if isinstance(event.extra, Mapping) and EXTRA_KEY in event.extra:
                    told.setdefault(json.dumps(event.extra, sort_keys=True), (event.timestamp, dict(event.extra)))
        return [extra for _, extra in sorted(told.values(), key=lambda one: one[0])]


def _told(difference: Mapping[str, Any]) -> str:
    address = ", ".join(f"{name}={value}" for name, value in (difference.get("address") or {}).items())
    where = f" [{address}]" if address else ""
    return f"  {difference.get('message')} ({difference.get('kind')}){where}\n    do: {difference.get('remedy')}"


def _newest(events: Any, count: int) -> Sequence[Any]:
    if hasattr(events, "limit"):
        return list(events.ascending(False).limit(count))
    return list(events)[-count:]  # Airflow 2 has no way to ask for the newest alone


__all__ = ["KsegAuditOperator"]
