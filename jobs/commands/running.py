"""What all commands share: the options, the way from a result to stdout, and the way from an error to an exit code."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

import click

from kseg.jobs.commands.command_config import given_properties
from kseg.jobs.commands.failures import REDACTOR, Failure, TerminatedError, failure_of, tell
from kseg.jobs.commands.remote import on_server
from kseg.jobs.commands.run_file import asked_for
from kseg.jobs.progress import FORMS, progress_for
from kseg.jobs.report.options import wishes_of

if TYPE_CHECKING:
    from kseg.etl.config.job import Job
    from kseg.etl.telemetry.progress import Progress
    from kseg.jobs.report.nothing import NoOutlets
    from kseg.jobs.report.outlets import Outlets

F = TypeVar("F", bound=Callable[..., Any])

_PROGRESS = "kseg.progress"

job_argument = click.argument("job_file", metavar="JOB.yaml", type=click.Path(dir_okay=False))
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout, nothing else.")
debug_option = click.option("--debug", is_flag=True, help="Show tracebacks, and log what happens to stderr.")
take_over_option = click.option(
    "--take-over", is_flag=True, help="Take the lease of another run that is known to be dead, without waiting."
)


def _trace(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from kseg.client.wire import trace

    before = os.environ.get(trace.VARIABLE)
    os.environ[trace.VARIABLE] = "1"  # Spark's local workers inherit it
    handler = trace.enable()

    def restore() -> None:
        trace.disable(handler)
        if before is None:
            del os.environ[trace.VARIABLE]
        else:
            os.environ[trace.VARIABLE] = before

    ctx.call_on_close(restore)


trace_option = click.option(
    "--trace",
    is_flag=True,
    expose_value=False,
    callback=_trace,
    help="A line on stderr for each request and response (also: KSEG_TRACE=1).",
)


def _progress(ctx: click.Context, _: click.Parameter, form: str | None) -> None:
    ctx.meta[_PROGRESS] = form


progress_option = click.option(
    "--progress",
    type=click.Choice(FORMS),
    expose_value=False,
    callback=_progress,
    help="How progress is told on stderr: one bar, a bar for each partition too, a line every 10 seconds, or nothing.  "
    "[default: total on a terminal, else lines]",
)


def common_options(command: F) -> F:
    """--json, --debug, --trace and --progress."""
    return json_option(debug_option(trace_option(progress_option(command))))


class Report(Protocol):
    """What the framework answers with."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Result:
    """What a command found out: the document that --json prints, the line above the tables, and the exit code.

    rows: how many rows of a table are shown to people.
    """

    document: dict[str, Any]
    headline: str
    exit_code: int = 0
    rows: int = 50


def load(job_file: str, *, starts_spark: bool = False) -> Job:
    """The validated job; its secrets are kept out of every message from here on.

    starts_spark: the command opens a session of its own, so a Java has to be there; under spark-submit one is.

    Raises:
        ConfigurationError, JavaMissing.
    """
    from kseg.etl.config.load import load_job

    job = load_job(job_file, kafka=given_properties())
    if starts_spark:
        job = on_server(job)
        if job.spark.remote is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
            from kseg.jobs.broker.java import use_java

            use_java()

    for properties in (job.kafka_properties(), job.spark_conf()):
        REDACTOR.learn(properties[key] for key in properties.hidden)
    return job


def execute(work: Callable[[Progress], Result], *, as_json: bool, debug: bool) -> NoReturn:
    """Run a command's work, print its result or its error, and leave with the exit code that says it."""
    from kseg.etl.telemetry.progress import Listeners
    from kseg.jobs.output.tables import show

    _set_up_logging(debug)
    record = asked_for()
    ctx = click.get_current_context()
    outlets = _outlets(ctx)
    with _own_stdout(as_json) as out, _sigterm_raises(), record or contextlib.nullcontext():
        try:
            with progress_for(form=ctx.meta.get(_PROGRESS)) as progress:
                listening = Listeners([outlets, progress])
                result = work(record.over(listening) if record else listening)
            outlets.close(result.document, result.exit_code)
            if as_json:
                print_json(result.document, out)
            else:
                show(_for_people(result.document), result.headline, stream=out, rows=result.rows)
            code, document = result.exit_code, result.document
        except (Exception, KeyboardInterrupt, TerminatedError) as error:
            if isinstance(error, click.exceptions.Exit):
                raise
            failure = failure_of(error)
            failure.extra = outlets.close(failure.to_json(), failure.exit_code)
            code, document = _report(failure, out if as_json else None, debug=debug), failure.to_json()
        if record:
            record.ended(code, document)
    ctx.exit(code)


def _outlets(ctx: click.Context) -> Outlets | NoOutlets:
    wishes = wishes_of(ctx)
    if wishes is None:
        from kseg.jobs.report.nothing import NoOutlets

        return NoOutlets()
    from kseg.jobs.report.outlets import Outlets

    return Outlets(wishes, ctx.command.name or "")


def _for_people(document: dict[str, Any]) -> dict[str, Any]:
    """Requests by API are for those who read on: in --json and in the run's page."""
    return {key: value for key, value in document.items() if key != "traffic"}


def report(error: BaseException, json_to: IO[str] | None, *, debug: bool) -> int:
    """Tell an error, on stderr or as JSON; returns the exit code."""
    return _report(failure_of(error), json_to, debug=debug)


def _report(failure: Failure, json_to: IO[str] | None, *, debug: bool) -> int:
    if json_to is not None:
        print_json(failure.to_json(), json_to)
        if debug:
            click.echo(failure.trace, err=True, nl=False)
    else:
        tell(failure, debug=debug)
    return failure.exit_code


def print_json(document: dict[str, Any], stream: IO[str]) -> None:
    """One object: on one line, or on a terminal, where people read it, on many."""
    indent = 2 if stream.isatty() else None
    stream.write(json.dumps(document, ensure_ascii=False, allow_nan=False, default=str, indent=indent) + "\n")
    stream.flush()


@contextlib.contextmanager
def _own_stdout(as_json: bool) -> Iterator[IO[str]]:
    """With --json stdout is the one object's: what libraries, user code, the JVM and workers print goes to stderr."""
    if not as_json:
        yield sys.stdout
        return
    ours = sys.stdout
    sys.stdout.flush()
    if not _is_descriptor_one(ours):  # a test's or a notebook's stand-in: there is no descriptor to turn
        with contextlib.redirect_stdout(sys.stderr):
            yield ours
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as out:
            yield out
    finally:
        ours.flush()
        os.dup2(kept, 1)
        os.close(kept)


def _is_descriptor_one(stream: IO[str]) -> bool:
    try:
        return stream.fileno() == 1
    except (OSError, ValueError, AttributeError):
        return False


@contextlib.contextmanager
def _sigterm_raises() -> Iterator[None]:
    """A scheduler stops a job with SIGTERM: unwind, so that the lease is released and no process is left behind."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # the second one means it
        raise TerminatedError

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not in the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _set_up_logging(debug: bool) -> None:
    """Warnings to stderr; with --debug what our own packages do. Other libraries' debug lines could hold anything."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if debug:
        logging.getLogger("kseg").setLevel(logging.DEBUG)
