"""OpenLineage events of a run, sent by OpenLineage's own client, where that is configured.

    START      the run is pinned                       inputs: topics; outputs: tables
    RUNNING    a table's commit is durable             that table, with its version and rows
    COMPLETE   exit code 0, or a recovery's 1          everything, with statistics
    FAIL       an error                                the same, as far as it is known, and the error
    ABORT      stopped by a signal                     as FAIL

The client's own configuration says where events go: `OPENLINEAGE_URL`, `OPENLINEAGE_CONFIG`, `OPENLINEAGE__…`, or
openlineage.yml. A thread makes and sends them, so a run does not wait for a backend while it works. At its end the run
waits up to `reporting.openlineage.timeout` for the remaining events; a backend that does not answer costs no more than
that, and a note in the report.

Names follow https://openlineage.io/docs/spec/naming: `kafka://host:port` and the topic; `s3://bucket` and the key;
`file` and the path. An event that ends a run is the last one with its UUID, so each attempt at a run has a UUID of its
own: the first kseg's run id, later ones what is made from that and the attempt's number. All share the tag `kseg_run`.
"""

from __future__ import annotations

import json
import os
import queue
import threading
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

import kseg
from kseg.etl.config.paths import scheme_of
from kseg.etl.telemetry import events
from kseg.etl.telemetry.events import JobOpened, RunPlanned, TableCommitted
from kseg.etl.telemetry.recorder import Telemetry
from kseg.jobs.report.outcome import CommandOutcome

if TYPE_CHECKING:
    from openlineage.client.event_v2 import RunEvent

    from kseg.etl.config.job import Job

PARENT: Final = "OPENLINEAGE_PARENT_ID"
ROOT: Final = "OPENLINEAGE_ROOT_PARENT_ID"
NAMESPACE: Final = "OPENLINEAGE_NAMESPACE"

Moment = Literal["START", "RUNNING", "COMPLETE", "FAIL", "ABORT"]


def configured(env: Mapping[str, str] = os.environ) -> bool:
    """Whether OpenLineage's client finds a configuration in its own places."""
    if env.get("OPENLINEAGE_DISABLED", "").strip().lower() == "true":
        return False
    named = any(name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG") or name.startswith("OPENLINEAGE__") for name in env)
    files = [Path("openlineage.yml")]
    with suppress(RuntimeError):  # a user without a home
        files.append(Path.home() / ".openlineage" / "openlineage.yml")
    return named or any(file.is_file() for file in files)


def wanted(job: Job) -> bool:
    """Whether the job's runs send events: as its file says, else where the client is configured and installed."""
    section = job.reporting.openlineage
    if section is not None and section.enabled is not None:
        return section.enabled
    return configured() and find_spec("openlineage") is not None


class Dataset(NamedTuple):
    """A dataset's name by the naming specification."""

    namespace: str
    name: str


def dataset_of_topic(servers: str, topic: str) -> Dataset:
    """A topic at the first of the bootstrap servers."""
    return Dataset(f"kafka://{servers.split(',')[0].strip()}", topic)


def dataset_of_path(path: str) -> Dataset:
    """A table or a folder by its path or URL."""
    parts = urlsplit(path)
    if scheme_of(path) == "file":
        return Dataset("file", parts.path if parts.scheme else path)
    scheme = "s3" if parts.scheme in ("s3a", "s3n") else parts.scheme
    keyed = scheme in ("s3", "gs")
    return Dataset(f"{scheme}://{parts.netloc}", (parts.path.strip("/") if keyed else parts.path.rstrip("/")) or "/")


def run_uuid(run_id: str, again: int | None = None) -> uuid.UUID:
    """OpenLineage's id of a run: kseg's own where that is a UUID, else made from it.

    again: the number of an attempt that took the run up.
    """
    if again is not None:
        return uuid.uuid5(uuid.NAMESPACE_URL, f"kseg:{run_id}:{again}")
    try:
        return uuid.UUID(hex=run_id)
    except ValueError:
        return uuid.uuid5(uuid.NAMESPACE_URL, f"kseg:{run_id}")


class _Moment(NamedTuple):
    kind: Moment
    at: datetime
    committed: TableCommitted | None = None
    outcome: CommandOutcome | None = None


class LineageReporter:
    """One run's events. `event` and `close` may be called from any thread; nothing raises."""

    def __init__(self, command: str, telemetry: Telemetry) -> None:
        self._command = command
        self._telemetry = telemetry
        self._moments: queue.SimpleQueue[_Moment | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._job: Job | None = None
        self._began = False
        self.fault: str | None = None

    def event(self, event: events.RunEvent) -> None:
        """Begins with the job, if its runs send events."""
        if isinstance(event, JobOpened) and self._thread is None and wanted(event.job):
            self._job = event.job
            self._thread = threading.Thread(target=self._send, name="kseg-lineage", daemon=True)
            self._thread.start()
        if self._thread is None:
            return
        if isinstance(event, RunPlanned) and not self._began:
            self._began = True
            self._moments.put(_Moment("START", datetime.now(UTC)))
        if isinstance(event, TableCommitted):
            self._moments.put(_Moment("RUNNING", datetime.now(UTC), committed=event))

    def close(self, outcome: CommandOutcome) -> str | None:
        """Send the last event, and wait as long as the job file allows; returns why something was not sent."""
        if self._thread is None or self._job is None:
            return None
        error = outcome.error
        if outcome.is_dry_run or (error is None and not self._began):
            kind = None  # nothing was read and nothing was written
        elif error is None:
            kind = _Moment("COMPLETE", datetime.now(UTC), outcome=outcome)
        else:
            stopped = error.get("kind") in ("Interrupted", "Terminated")
            kind = _Moment("ABORT" if stopped else "FAIL", datetime.now(UTC), outcome=outcome)
            if not self._began:
                self._moments.put(_Moment("START", datetime.fromtimestamp(self._telemetry.began, UTC)))
        if kind is not None:
            self._moments.put(kind)
        self._moments.put(None)
        section = self._job.reporting.openlineage
        seconds = section.timeout.total_seconds() if section is not None else 5.0
        self._thread.join(seconds)
        if self._thread.is_alive():
            return f"the backend took longer than {seconds:g} s"
        return self.fault

    def _send(self) -> None:
        try:
            from openlineage.client.client import OpenLineageClient

            client = OpenLineageClient()
        except Exception as error:
            self.fault = f"{type(error).__name__}: {error}"
            return
        while (moment := self._moments.get()) is not None:
            try:
                client.emit(self._event(moment))
            except Exception as error:
                self.fault = f"{type(error).__name__}: {error}"
        client.close(timeout=1)

    # --- events

    def _event(self, moment: _Moment) -> RunEvent:
        from openlineage.client.event_v2 import Job as LineageJob
        from openlineage.client.event_v2 import Run, RunEvent, RunState, set_producer

        assert self._job is not None
        set_producer(f"urn:kafka-segment-etl:{kseg.__version__}")
        telemetry = self._telemetry
        run_id = telemetry.plan.run_id if telemetry.plan is not None else f"{self._job.name}:{telemetry.began}"
        name = f"{self._job.name}.{self._command}"
        return RunEvent(
            eventType=RunState(moment.kind),
            eventTime=moment.at.isoformat().replace("+00:00", "Z"),
            run=Run(
                runId=str(run_uuid(run_id, telemetry.attempt if telemetry.taken_up else None)),
                facets=self._run_facets(moment),
            ),
            job=LineageJob(namespace=self._namespace, name=name, facets=self._job_facets()),
            inputs=self._inputs(moment),
            outputs=self._outputs(moment),
        )

    @property
    def _namespace(self) -> str:
        section = self._job.reporting.openlineage if self._job is not None else None
        return (section.namespace if section is not None else None) or os.environ.get(NAMESPACE) or "default"

    def _run_facets(self, moment: _Moment) -> dict[str, Any]:
        from openlineage.client.generated import (
            error_message_run,
            nominal_time_run,
            processing_engine_run,
            tags_run,
        )

        facets: dict[str, Any] = {
            "processing_engine": processing_engine_run.ProcessingEngineRunFacet(
                version=kseg.__version__,
                name="kseg",
                openlineageAdapterVersion=kseg.__version__,
            )
        }
        if self._telemetry.plan is not None:
            tag = tags_run.TagsRunFacetFields("kseg_run", self._telemetry.plan.run_id, "KSEG")
            facets["tags"] = tags_run.TagsRunFacet([tag])
        parent = _parent(os.environ)
        if parent is not None:
            facets["parent"] = parent
        interval = _interval(self._telemetry)
        if interval is not None:
            facets["nominalTime"] = nominal_time_run.NominalTimeRunFacet(*interval)
        if moment.outcome is not None and moment.outcome.error is not None:
            from kseg.jobs.output.redaction import REDACTOR

            message = REDACTOR.clean(str(moment.outcome.error.get("message")))
            facets["errorMessage"] = error_message_run.ErrorMessageRunFacet(message, "PYTHON")
        return facets

    def _job_facets(self) -> dict[str, Any]:
        from openlineage.client.generated import job_type_job, ownership_job

        assert self._job is not None
        facets: dict[str, Any] = {"jobType": job_type_job.JobTypeJobFacet("BATCH", "KSEG", "JOB")}
        airflow = self._job.airflow
        if airflow is not None and airflow.owner:
            facets["ownership"] = ownership_job.OwnershipJobFacet([ownership_job.Owner(airflow.owner, "OWNER")])
        return facets

    def _inputs(self, moment: _Moment) -> list[Any]:
        from openlineage.client.event_v2 import InputDataset
        from openlineage.client.generated.input_statistics_input_dataset import InputStatisticsInputDatasetFacet

        assert self._job is not None
        topics = self._topics()
        rows, fetched = dict.fromkeys(topics, 0), dict.fromkeys(topics, 0)
        for tp, sums in list(self._telemetry.partitions.items()):
            rows[tp.topic] = rows.get(tp.topic, 0) + sums.rows
            fetched[tp.topic] = fetched.get(tp.topic, 0) + sums.bytes
        segments = self._job.source.segments
        if segments is not None:
            return [InputDataset(*dataset_of_path(path)) for path in segments.paths]
        servers = (self._job.kafka_properties()).get("bootstrap.servers", "")
        found = []
        for topic in topics:
            facets: dict[str, Any] = {"inputStatistics": InputStatisticsInputDatasetFacet(rows[topic], fetched[topic])}
            where = dataset_of_topic(servers, topic)
            found.append(InputDataset(*where, inputFacets=facets if moment.outcome is not None else {}))
        return found

    def _topics(self) -> list[str]:
        plan = self._telemetry.plan
        if plan is not None:
            return sorted({planned.topic for planned in plan.ranges})
        return sorted(self._job.source.named_topics or ()) if self._job is not None else []

    def _outputs(self, moment: _Moment) -> list[Any]:
        telemetry = self._telemetry
        if moment.committed is not None:
            return [self._output(moment.committed.table, moment.committed)]
        tables = telemetry.plan.tables if telemetry.plan is not None else {}
        committed = dict(telemetry.commits) if moment.outcome is not None else {}
        return [self._output(table, committed.get(table)) for table in sorted({*tables, *committed})]

    def _output(self, table: str, committed: TableCommitted | None) -> Any:
        from openlineage.client.event_v2 import OutputDataset
        from openlineage.client.generated import (
            dataset_version_dataset,
            output_statistics_output_dataset,
            schema_dataset,
            storage_dataset,
        )

        facets: dict[str, Any] = {"storage": storage_dataset.StorageDatasetFacet("delta", fileFormat="parquet")}
        statistics: dict[str, Any] = {}
        schema = self._telemetry.schemas.get(table)
        if schema:
            fields = [schema_dataset.SchemaDatasetFacetFields(name, kind) for name, kind in schema.items()]
            facets["schema"] = schema_dataset.SchemaDatasetFacet(fields)
        if committed is not None:
            commit = committed.commit
            if commit.version >= 0:
                facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(commit.version))
            statistics["outputStatistics"] = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
                commit.rows, commit.bytes, commit.files
            )
        by_path = scheme_of(table) != "file" or Path(table).is_absolute()
        where = dataset_of_path(table) if by_path else Dataset(self._namespace, table)
        return OutputDataset(*where, facets=facets, outputFacets=statistics)


def _interval(telemetry: Telemetry) -> tuple[str, str] | None:
    """The data interval that the run is for, if it is for one."""
    if telemetry.plan is None or telemetry.plan.mode != "interval":
        return None
    interval = json.loads(telemetry.plan.asked or "{}").get("interval")
    return (interval[0], interval[1]) if interval else None


def _parent(env: Mapping[str, str]) -> Any:
    """The parent's facet by `namespace/name/run`, as OpenLineage's integrations hand it on; None without one."""
    from openlineage.client.generated import parent_run

    parent = _named(env.get(PARENT))
    if parent is None:
        return None
    namespace, name, run = parent
    root = _named(env.get(ROOT))
    return parent_run.ParentRunFacet(
        run=parent_run.Run(run),
        job=parent_run.Job(namespace, name),
        root=parent_run.Root(parent_run.RootRun(root[2]), parent_run.RootJob(root[0], root[1])) if root else None,
    )


def _named(text: str | None) -> tuple[str, str, str] | None:
    """`namespace/name/run` in its parts; a namespace may be a URL. None where it is no such thing."""
    rest, _, run = (text or "").rpartition("/")
    namespace, _, name = rest.rpartition("/")
    try:
        return (namespace, name, str(uuid.UUID(run))) if namespace and name else None
    except ValueError:
        return None
