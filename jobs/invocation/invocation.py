"""The common options of all commands, as one value that is passed to a command's function."""

from __future__ import annotations

from dataclasses import dataclass

from kseg.etl.telemetry.progress import NULL_PROGRESS, Progress
from kseg.jobs.progress import Form
from kseg.jobs.report.options import ReportOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """One call of a command. An option that the command does not have keeps its default here.

    Attributes:
        command: its name, as in `ingest`.
        as_json: print one JSON object on stdout and nothing else.
        quiet: print no progress and no result for people; errors, and what --json prints, are printed all the same.
        debug: show tracebacks, and log to stderr.
        trace: a line on stderr for each request and response of the Kafka protocol.
        progress_form: how progress is shown; None: bars on a terminal, else lines.
        command_config: a Java properties file, which overrides the job file's `kafka:` section.
        remote: a Spark Connect server, which replaces the job file's `spark.master`.
        run_file: the JSON file that is kept up to date with what the run is doing.
        report: where the run's page and metrics go; None: the command has no such options.
        progress: the listener that the command's work reports to.
    """

    command: str
    as_json: bool = False
    quiet: bool = False
    debug: bool = False
    trace: bool = False
    progress_form: Form | None = None
    command_config: str | None = None
    remote: str | None = None
    run_file: str | None = None
    report: ReportOptions | None = None
    progress: Progress = NULL_PROGRESS
