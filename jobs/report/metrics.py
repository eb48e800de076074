"""A run's metrics in Prometheus' text format: a file for node_exporter's textfile collector, or a Pushgateway.

A batch job cannot be scraped, and each run is a new process whose counters would begin at 0. So all metrics are gauges
of the last run of a job's command (`etl_job`, `command`), as Prometheus' page on batch jobs recommends. How they are
written follows from two more of its recommendations:

    last success    a run that fails leaves `kseg_last_success_timestamp_seconds` as it was, so that alerts on its age
                    work: a gateway is sent the other metrics alone (POST), a file's old value is read and kept
    grouping        job="kseg", etl_job and command: a job's runs replace each other, and no other job's

Metrics by partition are left out of jobs with more than `MAX_PARTITIONS`; those by topic stay.
https://prometheus.io/docs/practices/instrumentation/#batch-jobs
https://prometheus.io/docs/practices/naming/
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kseg.etl.telemetry.recorder import lag_of
from kseg.jobs.report.outcome import CommandOutcome

if TYPE_CHECKING:
    from prometheus_client.core import GaugeMetricFamily
    from prometheus_client.registry import CollectorRegistry

MAX_PARTITIONS: Final = 1000
PUSH_TIMEOUT: Final = 10.0
GATEWAY_JOB: Final = "kseg"
USER, PASSWORD = "KSEG_PUSH_GATEWAY_USER", "KSEG_PUSH_GATEWAY_PASSWORD"

LAST_SUCCESS: Final = "kseg_last_success_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric: its help text, and its labels besides `etl_job` and `command`."""

    help: str
    labels: tuple[str, ...] = ()


METRICS: Final[Mapping[str, Metric]] = {
    "kseg_last_run_timestamp_seconds": Metric("When the last run ended, in seconds since the epoch."),
    LAST_SUCCESS: Metric("When the last run that ended with exit code 0 ended, in seconds since the epoch."),
    "kseg_last_run_exit_code": Metric("The last run's exit code; 0 means done."),
    "kseg_last_run_duration_seconds": Metric("How long the last run took."),
    "kseg_last_run_phase_seconds": Metric("How long each phase of the last run took.", ("phase",)),
    "kseg_last_run_rows": Metric("Rows that the last run landed, by table.", ("table",)),
    "kseg_last_run_offsets": Metric("Offsets that the last run read, by what they held.", ("kind",)),
    "kseg_last_run_fetched_bytes": Metric("Bytes of records that the last run's tasks fetched."),
    "kseg_last_run_tasks": Metric("Tasks of the last run that ended."),
    "kseg_last_run_task_retries": Metric("How often tasks of the last run were tried again."),
    "kseg_last_run_throttled_seconds": Metric("Seconds that quotas made the last run's tasks wait.", ("broker",)),
    "kseg_last_run_requests": Metric("Requests that the last run sent, driver and tasks.", ("broker", "api")),
    "kseg_last_run_request_errors": Metric("Of these, answered with an error or not at all.", ("broker", "api")),
    "kseg_table_version": Metric("The Delta version that holds the last run's rows.", ("table",)),
    "kseg_topic_lag_offsets": Metric("Offsets that may be read and have not landed, after the last run.", ("topic",)),
    "kseg_topic_lag_seconds": Metric(
        "Age of the oldest record that had not landed when the run ended; needs reporting.freshness.", ("topic",)
    ),
    "kseg_partition_lag_seconds": Metric("The same by partition.", ("topic", "partition")),
    "kseg_partition_lag_offsets": Metric("The same by partition.", ("topic", "partition")),
    "kseg_partition_high_watermark_offset": Metric("The high watermark, as last seen.", ("topic", "partition")),
    "kseg_partition_frontier_offset": Metric("Where the next run starts.", ("topic", "partition")),
    "kseg_partition_committed_offset": Metric("The group's committed offset.", ("topic", "partition")),
}

Samples = dict[str, dict[tuple[str, ...], float]]
"""By metric and label values."""


def samples_of(outcome: CommandOutcome) -> Samples:
    """The run's metrics. A value that is not known is left out."""
    telemetry, document = outcome.telemetry, outcome.document
    ended = telemetry.began + telemetry.seconds
    found: Samples = {
        "kseg_last_run_timestamp_seconds": {(): ended},
        "kseg_last_run_exit_code": {(): outcome.exit_code},
        "kseg_last_run_duration_seconds": {(): telemetry.seconds},
        "kseg_last_run_phase_seconds": {(phase,): seconds for phase, seconds in outcome.phases.items()},
        "kseg_last_run_rows": {(table,): c.commit.rows for table, c in telemetry.commits.items()},
        "kseg_last_run_offsets": {
            (kind,): document["counts"][kind] for kind in outcome.KINDS if kind in document.get("counts", {})
        },
        "kseg_last_run_fetched_bytes": {(): telemetry.sums.bytes},
        "kseg_last_run_tasks": {(): telemetry.sums.tasks},
        "kseg_last_run_task_retries": {(): telemetry.sums.retries},
        "kseg_last_run_throttled_seconds": {(str(broker),): s for broker, s in telemetry.throttled.items()},
        "kseg_last_run_requests": _by_api((*line, sent) for *line, sent, _ in outcome.requests),
        "kseg_last_run_request_errors": _by_api((*line, failed) for *line, _, failed in outcome.requests),
        "kseg_table_version": {(t,): c.commit.version for t, c in telemetry.commits.items() if c.commit.version >= 0},
    }
    if outcome.exit_code == 0:
        found[LAST_SUCCESS] = {(): ended}
    return found | _freshness(outcome) | _partitions(outcome)


def _freshness(outcome: CommandOutcome) -> Samples:
    """Seconds by topic (its partition that is furthest behind) and partition."""
    found = outcome.document.get("freshness")
    if found is None:
        return {}
    topics: dict[tuple[str, ...], float] = {}
    partitions: dict[tuple[str, ...], float] = {}
    for one in found["partitions"]:
        if one["seconds"] is not None:
            topics[(one["topic"],)] = max(topics.get((one["topic"],), 0.0), one["seconds"])
            partitions[one["topic"], str(one["partition"])] = one["seconds"]
    few = max(len(found["partitions"]), len(outcome.telemetry.last)) <= MAX_PARTITIONS
    return {"kseg_topic_lag_seconds": topics} | ({"kseg_partition_lag_seconds": partitions} if few else {})


def _by_api(lines: Iterable[tuple[Any, ...]]) -> dict[tuple[str, ...], float]:
    sums: dict[tuple[str, ...], float] = {}
    for broker, api, number in lines:
        sums[broker, api] = sums.get((broker, api), 0) + number
    return sums


def _partitions(outcome: CommandOutcome) -> Samples:
    views = outcome.telemetry.last
    topics: dict[tuple[str, ...], float] = {}
    for tp, view in views.items():
        lag = lag_of(view)
        if lag is not None:
            topics[(tp.topic,)] = topics.get((tp.topic,), 0) + lag
    found: Samples = {"kseg_topic_lag_offsets": topics}
    if len(views) > MAX_PARTITIONS:
        return found
    for name, value in (
        ("lag", lag_of),
        ("high_watermark", lambda view: view.high_watermark),
        ("frontier", lambda view: view.frontier),
        ("committed", lambda view: view.committed),
    ):
        values = {(tp.topic, str(tp.partition)): value(view) for tp, view in views.items()}
        metric = f"kseg_partition_{name}_{'offsets' if name == 'lag' else 'offset'}"
        found[metric] = {labels: number for labels, number in values.items() if number is not None and number >= 0}
    return found


@dataclass(slots=True)
class _Families:
    """The samples that a registry collects: ours, with `etl_job` and `command`, and those of a file that are kept."""

    samples: Samples
    etl_job: str
    command: str
    kept: list[tuple[str, dict[str, str], float]] = field(default_factory=list)

    def collect(self) -> Iterable[GaugeMetricFamily]:
        from prometheus_client.core import GaugeMetricFamily

        for name, metric in METRICS.items():
            labels = ("etl_job", "command", *metric.labels)
            family = GaugeMetricFamily(name, metric.help, labels=labels)
            for values, number in self.samples.get(name, {}).items():
                family.add_metric((self.etl_job, self.command, *values), number)
            for kept, kept_labels, number in self.kept:
                if kept == name and set(kept_labels) == set(labels):
                    family.add_metric([kept_labels[label] for label in labels], number)
            if family.samples:
                yield family


def _registry(families: _Families) -> CollectorRegistry:
    from prometheus_client.registry import Collector, CollectorRegistry

    class _Collector(Collector):
        def collect(self) -> Iterable[Any]:
            return families.collect()

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector())
    return registry


def write_file(path: str, outcome: CommandOutcome) -> None:
    """Replace the file, atomically. What it says of other commands of this job, and of its last success, stays; all of
    it where the job is not known, as of a job file that is not YAML."""
    from prometheus_client import write_to_textfile

    families = _Families(samples_of(outcome), outcome.job or "", outcome.command)
    families.kept = _kept(Path(path), families)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_to_textfile(path, _registry(families))


def _kept(path: Path, now: _Families) -> list[tuple[str, dict[str, str], float]]:
    from prometheus_client.parser import text_string_to_metric_families

    try:
        families = list(text_string_to_metric_families(path.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):  # none yet, or none of ours: it is replaced
        return []
    return [
        (sample.name, dict(sample.labels), sample.value)
        for family in families
        for sample in family.samples
        if now.etl_job in (sample.labels.get("etl_job"), "")
        and (
            (sample.labels.get("etl_job"), sample.labels.get("command")) != (now.etl_job, now.command)
            or sample.name not in now.samples
        )
    ]


def push(gateway: str, outcome: CommandOutcome) -> None:
    """Send the metrics to a Pushgateway, in the group job="kseg", etl_job, command. Raises OSError."""
    from prometheus_client import pushadd_to_gateway
    from prometheus_client.exposition import basic_auth_handler, default_handler

    user, password = os.environ.get(USER), os.environ.get(PASSWORD)

    def handler(url: str, method: str, timeout: float | None, headers: Any, data: bytes) -> Any:
        if user is None:
            return default_handler(url, method, timeout, headers, data)
        return basic_auth_handler(url, method, timeout, headers, data, user, password)

    etl_job = outcome.job or ""
    pushadd_to_gateway(
        gateway,
        job=GATEWAY_JOB,
        registry=_registry(_Families(samples_of(outcome), etl_job, outcome.command)),
        grouping_key={"etl_job": etl_job, "command": outcome.command},
        timeout=PUSH_TIMEOUT,
        handler=handler,
    )
