"""Runs a command's function: logging, progress, run file and reports; prints its result or error."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click

from kseg.jobs.invocation.failures import Failure, TerminatedError, failure_of, print_failure
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.result import Result
from kseg.jobs.invocation.run_file import RunFile
from kseg.jobs.invocation.stopping import stoppable
from kseg.jobs.output.last_output import last_output
from kseg.jobs.output.standard_streams import escape_unencodable, has_no_reader
from kseg.jobs.progress import progress_for
from kseg.jobs.progress.waits import waits_shown

#: Commands that take up an unfinished run.
_RUNS: Final = ("ingest", "backfill", "interval", "redrive")

if TYPE_CHECKING:
    from kseg.jobs.report.null_reporter import NullReporter
    from kseg.jobs.report.reporter import Reporter


def execute(invocation: Invocation, work: Callable[[Invocation], Result]) -> int:
    """Run a command's work and print its result, or its error; returns the exit code.

    work: gets the invocation with its progress listener.
    """
    from kseg.etl.telemetry.progress import Listeners
    from kseg.jobs.invocation.subject import Subject
    from kseg.jobs.output.tables import show

    _set_up_logging(invocation.debug)
    run_file = RunFile(Path(invocation.run_file)) if invocation.run_file is not None else None
    reporter, subject = _reporter(invocation), Subject()
    form = "none" if invocation.quiet else invocation.progress_form
    with tracing(invocation.trace), _stdout(invocation.as_json) as out, stoppable() as stop:  # noqa: SIM117
        with run_file or contextlib.nullcontext():
            try:
                with progress_for(form=form) as shown, waits_shown(shown):
                    listeners = Listeners([reporter, subject, shown])
                    progress = run_file.recording(listeners) if run_file else listeners
                    result = work(replace(invocation, progress=progress)).masked()
                stop.too_late()
                reporter.close(result.document, result.exit_code)
                code, document = result.exit_code, result.document
                with last_output(out):  # the work is done, whoever reads of it
                    if invocation.as_json:
                        _print_json(result.document, out)
                    elif not invocation.quiet:
                        show(_for_people(result), result.headline, stream=out, rows=result.rows)
            except (Exception, KeyboardInterrupt, TerminatedError) as error:
                stop.too_late()
                if isinstance(error, click.exceptions.Exit) or _output_is_cut_off(error):
                    raise
                failure = failure_of(stop.cause_of(error), runs=invocation.command in _RUNS)
                if not invocation.debug:
                    failure.write_log(invocation.command, subject.job, subject.run)
                if subject.ended:
                    failure.extra |= {"ended_runs": subject.ended}
                failure.extra |= reporter.close(failure.to_json(), failure.exit_code)
                document = failure.to_json()
                code = _report(failure, out if invocation.as_json else None, debug=invocation.debug)
            if run_file:
                run_file.ended(code, document)
    return code


def _reporter(invocation: Invocation) -> Reporter | NullReporter:
    if invocation.report is None:
        from kseg.jobs.report.null_reporter import NullReporter

        return NullReporter()
    from kseg.jobs.report.reporter import Reporter

    return Reporter(invocation.report, invocation.command)


def _for_people(result: Result) -> dict[str, Any]:
    """Requests by API are in --json and in the run's page alone."""
    shown = result.document if result.people is None else result.people
    return {key: value for key, value in shown.items() if key != "traffic"}


def report_error(error: BaseException, json_to: IO[str] | None, *, debug: bool) -> int:
    """Print an error, on stderr or as JSON; returns the exit code."""
    failure = failure_of(error)
    if not debug:
        failure.write_log("")
    return _report(failure, json_to, debug=debug)


def _report(failure: Failure, json_to: IO[str] | None, *, debug: bool) -> int:
    with last_output(sys.stderr, json_to):
        if json_to is not None:
            _print_json(failure.to_json(), json_to)
            if debug:
                click.echo(failure.trace, err=True, nl=False)
        else:
            print_failure(failure, debug=debug)
    return failure.exit_code


def _output_is_cut_off(error: BaseException) -> bool:
    """Whether the reader closed our output while the command was printing, as `kseg status --watch` does."""
    return isinstance(error, BrokenPipeError) and (has_no_reader(sys.stdout) or has_no_reader(sys.stderr))


def _print_json(document: dict[str, Any], stream: IO[str]) -> None:
    """One object: on one line, or on a terminal, where people read it, on many."""
    indent = 2 if stream.isatty() else None
    stream.write(json.dumps(document, ensure_ascii=False, allow_nan=False, default=str, indent=indent) + "\n")
    stream.flush()


@contextlib.contextmanager
def tracing(wanted: bool) -> Iterator[None]:
    """With --trace, log requests and responses of this process and of Spark's local workers."""
    if not wanted:
        yield
        return
    from kseg.client.wire import trace

    before = os.environ.get(trace.VARIABLE)
    os.environ[trace.VARIABLE] = "1"  # Spark's local workers inherit it
    handler = trace.enable()
    try:
        yield
    finally:
        trace.disable(handler)
        if before is None:
            del os.environ[trace.VARIABLE]
        else:
            os.environ[trace.VARIABLE] = before


@contextlib.contextmanager
def _stdout(as_json: bool) -> Iterator[IO[str]]:
    """With --json stdout holds one object: what libraries, user code, the JVM and workers print goes to stderr."""
    if not as_json:
        yield sys.stdout
        return
    ours = sys.stdout
    sys.stdout.flush()
    if not _is_descriptor_one(ours):  # replaced by a test or a notebook: there is no descriptor to redirect
        with contextlib.redirect_stdout(sys.stderr):
            yield ours
        return
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with os.fdopen(os.dup(kept), "w", encoding="utf-8") as out:
            escape_unencodable(out)  # half of a surrogate pair, as in a file's name that is not UTF-8
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


def _set_up_logging(debug: bool) -> None:
    """Warnings to stderr; with --debug what our own packages do. Other libraries' debug lines could hold anything."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    if debug:
        logging.getLogger("kseg").setLevel(logging.DEBUG)
