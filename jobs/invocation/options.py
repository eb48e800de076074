"""The click options that several commands have. Those of `Invocation` have its attributes' names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kseg.jobs.progress import FORMS

F = TypeVar("F", bound=Callable[..., Any])

SPARK_REMOTE: Final = "SPARK_REMOTE"

job_argument = click.argument("job_file", metavar="JOB.yaml", type=click.Path(dir_okay=False))
take_over_option = click.option(
    "--take-over", is_flag=True, help="Take over the lease of another run that is known to be dead, without waiting."
)
with_spark_option = click.option(
    "--with-spark", is_flag=True, help="Also start Spark, and check SQL and Python steps against the rows' columns."
)

# --- of the invocation

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, and nothing else.")
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print only errors: no progress, no tables.")
debug_option = click.option("--debug", is_flag=True, help="Show tracebacks, and log details to stderr.")
trace_option = click.option(
    "--trace", is_flag=True, help="Log a line on stderr for each request and response (also: KSEG_TRACE=1)."
)
progress_option = click.option(
    "--progress",
    "progress_form",
    type=click.Choice(FORMS),
    help="How progress is shown on stderr. total: one bar. partitions: also a bar for each partition. lines: a line "
    "every 10 seconds. none: not at all.  [default: total on a terminal, else lines]",
)
command_config_option = click.option(
    "--command-config",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="A Java properties file that overrides the job file's `kafka:` section.",
)
remote_option = click.option(
    "--remote",
    metavar="URL",
    help=f"A Spark Connect server, as in sc://host:15002, in place of `spark.master` (also: {SPARK_REMOTE}).",
)
run_file_option = click.option(
    "--run-file",
    metavar="FILE",
    type=click.Path(dir_okay=False),
    help="Write the run's progress to FILE as JSON, for another process to read.",
)


def common_options(command: F) -> F:
    """--json, --quiet, --debug, --trace and --progress."""
    return json_option(quiet_option(debug_option(trace_option(progress_option(command)))))


# --- by which a command without a job file reaches a cluster

# Clients' property is bootstrap.servers; the option of Kafka's own tools is --bootstrap-server.
_BOOTSTRAP = click.option(
    *("--bootstrap-servers", "--bootstrap-server", "--bootstrap", "bootstrap_servers"),
    metavar="HOST:PORT,…",
    help="Addresses of brokers.",
)
_CONTROLLERS = click.option(
    *("--bootstrap-controllers", "--bootstrap-controller", "bootstrap_controllers"),
    metavar="HOST:PORT,…",
    help="KRaft controllers instead of brokers.",
)
_FILE = click.option(
    "--command-config", metavar="FILE", type=click.Path(dir_okay=False), help="A file of client properties."
)
_PROPERTY = click.option("-X", "properties", multiple=True, metavar="KEY=VALUE", help="A client property; repeatable.")

JOB_FILE_ENDINGS: Final = (".yaml", ".yml")


def cluster_options(command: F) -> F:
    """--bootstrap-servers, --command-config and -X."""
    return _BOOTSTRAP(_FILE(_PROPERTY(command)))


def cluster_or_controller_options(command: F) -> F:
    """The same with --bootstrap-controllers."""
    return _BOOTSTRAP(_CONTROLLERS(_FILE(_PROPERTY(command))))


def is_job_file(name: str) -> bool:
    """Whether an argument names a job file rather than a topic."""
    return name.endswith(JOB_FILE_ENDINGS)
