"""Recover: readable records of log directories go to a table, damaged batches to a quarantine table beside it.

It is an incremental run up to the log ends, of a job that this module builds. The ledger is stored beside the table: a
second run over the same directories changes nothing, and one over directories that have grown continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.config.paths import TOPIC_PLACEHOLDER
from kseg.etl.errors import ConfigurationError
from kseg.etl.run.pipeline import run_ingest
from kseg.etl.run.report import RunReport
from kseg.etl.source.files.log_directories import LogCatalog
from kseg.etl.source.job_origin import origin_of
from kseg.etl.source.origin import LogFiles
from kseg.etl.tables.targets import table_at
from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress
from kseg.segment_reader.log.files.storage import PLAIN

NAME = "recover"


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """One damaged range of the quarantine table: offsets [first_offset, last_offset) are missing."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    reason: str
    file: str | None
    position: int | None
    length: int


@dataclass(frozen=True, slots=True)
class Unconfirmed:
    """Offsets at a log's end above the high watermark that the broker checkpointed last: they may not have been
    replicated. high_watermark is None where there is no checkpoint of it."""

    topic: str
    partition: int
    high_watermark: int | None
    log_end: int


@dataclass(slots=True)
class RecoverReport:
    """The result of `kseg recover`. rows: landed by this run. damaged: everything in the quarantine table."""

    run: RunReport
    quarantine: str
    ledger: str
    topics: int = 0
    partitions: int = 0
    damaged: list[DamagedRange] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)
    unconfirmed: list[Unconfirmed] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return sum(table.rows or 0 for table in self.run.tables) if self.run.status == "done" else 0

    def to_json(self) -> dict[str, Any]:
        """A JSON-able dictionary with stable keys."""
        run = self.run.to_json()
        return {
            "status": run["status"],
            "rows": self.rows,
            "topics": self.topics,
            "partitions": self.partitions,
            "quarantined_offsets": sum(d.last_offset - d.first_offset for d in self.damaged),
            "quarantine": self.quarantine,
            "ledger": self.ledger,
            "run": run["run"],
            "counts": run["counts"],
            "tables": run["tables"],
            "ranges": run["ranges"],
            "damaged": [asdict(damage) for damage in self.damaged],
            "unconfirmed": [asdict(one) for one in self.unconfirmed],
            "torn": self.torn,
            "notes": run["notes"],
            "seconds": run["seconds"],
        }


def recovery_job(
    log_dirs: Sequence[str],
    table: str,
    *,
    quarantine: str | None = None,
    ledger: str | None = None,
    topics: Sequence[str] = (),
    pattern: str | None = None,
    isolation_level: str = "read_committed",
    master: str | None = None,
    layout: str = PLAIN,
    options: Mapping[str, str] | None = None,
) -> Job:
    """The job of a recovery. Its quarantine and ledger lie beside the table (or the folder of `{topic}` tables).

    master: of the Spark that reads; None: whether Spark reads depends on how much there is (`run.engine: auto`).
    layout, options: the layout of the logs, and options of the store and of the layout (`LogFiles`).

    Raises:
        ConfigurationError: paths that cannot be combined, or invalid topic names; or `table` names no folder that
            another can lie beside, and quarantine or ledger is not given.
    """
    if quarantine is None or ledger is None:
        folder = _folder_of(table)
        quarantine, ledger = quarantine or f"{folder}_quarantine", ledger or f"{folder}_ledger"
    return job_from_document(
        {
            "version": 1,
            "name": NAME,
            "source": {
                "segments": {
                    "paths": list(log_dirs),
                    "layout": layout,
                    **({"options": dict(options)} if options else {}),
                },
                **({"topics": list(topics)} if topics else {"pattern": pattern or ".*"}),
                "isolation_level": isolation_level,
                "ending_offsets": "log_end",
                # All missing offsets are recorded: there is no broker left to read them from.
                "on_data_loss": "record",
                "on_gap": "record",
                "on_corruption": "quarantine",
            },
            "sink": {"path": table, "quarantine": {"path": quarantine}},
            "ledger": ledger,
            **({"spark": {"master": master}} if master else {"run": {"engine": "auto"}}),
        }
    )


def _folder_of(table: str) -> str:
    """The folder of a table, or of `{topic}` tables, whose name with a suffix is another folder beside it.

    Raises ConfigurationError: it has no name of its own (`.`), or it is a bucket, whose name with a suffix is another
    bucket.
    """
    folder, template, _ = table.partition(TOPIC_PLACEHOLDER)
    folder = folder.rpartition("/")[0] if template else folder.rstrip("/")
    _, scheme, path = folder.partition("://")
    if folder.rpartition("/")[2] in ("", ".", "..") or (scheme and "/" not in path):
        raise ConfigurationError.of(
            "--to",
            f"{table} has no folder with a name of its own, beside which quarantine and ledger could lie",
            f"write --to {folder + '/' if folder else ''}recovered{'/{topic}' if template else ''}, "
            "or give --quarantine and --ledger",
        )
    return folder


def recover(job: Job, *, take_over: bool = False, progress: Progress | None = None) -> RecoverReport:
    """Land readable records, and keep damaged batches in the quarantine table.

    Raises:
        As `etl.run.pipeline.run_ingest`; damaged batches raise nothing.
    """
    progress = progress or NULL_PROGRESS
    quarantine = job.quarantine
    assert quarantine is not None
    report = RecoverReport(run_ingest(job, take_over=take_over, progress=progress), quarantine, job.ledger)
    progress.phase("sum up")
    report.damaged = sorted(quarantined(quarantine), key=lambda d: (d.topic, d.partition, d.first_offset))
    origin = origin_of(job)
    assert isinstance(origin, LogFiles)
    catalog = LogCatalog(origin)
    found = catalog.topics(topics=job.source.topics, pattern=job.source.pattern)
    report.partitions, report.topics = len(found), len({tp.topic for tp in found})
    for tp in found:
        torn = catalog.torn(tp)
        report.torn += [str(torn)] if torn is not None else []
        report.unconfirmed += _unconfirmed(catalog, tp)
    return report


def _unconfirmed(catalog: LogCatalog, tp: TopicPartition) -> Iterator[Unconfirmed]:
    bounds = catalog.bounds(tp)
    confirmed = None if bounds.confirmed is None or bounds.confirmed < 0 else bounds.confirmed
    if bounds.high_watermark > max(confirmed or 0, bounds.start):
        yield Unconfirmed(tp.topic, tp.partition, confirmed, bounds.high_watermark)


def quarantined(path: str) -> list[DamagedRange]:
    """The damaged ranges in a quarantine table, without their bytes; damage that two runs found counts once."""
    names = ["topic", "partition", "first_offset", "last_offset", "reason", "file", "position", "length"]
    rows = table_at(path).read(names, {"piece_position": 0})
    if rows is None:
        return []
    return sorted({DamagedRange(*(row[name] for name in names)) for row in rows.to_pylist()}, key=str)
