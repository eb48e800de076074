"""Errors as documents, as text and as exit codes: what happened, where, why, what to do; a traceback with `--debug`.

Errors of `kseg.etl` carry all of this. Errors of the Kafka client and the decoder are described by their attributes.
Any other error is unexpected: exit code 1.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass, field
from typing import Any

import click

from kseg.etl.errors import ConfigurationError, ExitCode, Fault, KsegError
from kseg.jobs.output.redaction import REDACTOR

_ADDRESS_NAMES = (
    "topic", "partition", "offset", "base_offset", "position", "file",
    "group", "transactional_id", "resource", "broker",
)  # fmt: skip


class TerminatedError(BaseException):
    """SIGTERM: unwinds like Ctrl-C does, so that leases are released and processes stopped."""


@dataclass(slots=True)
class Failure:
    """An error as a document. extra: what else is known of the run, added to the document."""

    exit_code: int
    document: dict[str, Any]
    faults: tuple[Fault, ...] = ()
    trace: str = ""
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"error": self.document, "exit_code": self.exit_code, **self.extra}


def failure_of(error: BaseException) -> Failure:
    """An error's document and exit code."""
    trace = REDACTOR.clean("".join(traceback.format_exception(error)))
    faults: tuple[Fault, ...] = ()
    if isinstance(error, KsegError):
        faults = error.faults if isinstance(error, ConfigurationError) else ()
        document, code = error.to_json(), int(error.exit_code)
    elif isinstance(error, click.UsageError):
        document, code = _document(error, error.format_message(), kind="UsageError"), int(ExitCode.BAD_CONFIGURATION)
        document["remedy"] = f"{error.ctx.command_path} --help" if error.ctx else "kseg --help"
    elif isinstance(error, KeyboardInterrupt | click.Abort | TerminatedError):
        kind = "Terminated" if isinstance(error, TerminatedError) else "Interrupted"
        document, code = _document(error, kind.lower(), kind=kind), int(ExitCode.FAILED)
        document["remedy"] = "run it again: an unfinished run is taken up where it stopped"
    else:
        document, code = _foreign(error)
    return Failure(code, REDACTOR.clean(document), faults, trace)


def _foreign(error: BaseException) -> tuple[dict[str, Any], int]:
    """Errors of the client and the decoder, by their attributes; and unexpected ones."""
    retriable = getattr(error, "retriable", None)
    if isinstance(retriable, bool):
        document = _document(error, str(getattr(error, "message", None) or error))
        document["retriable"] = retriable
        lacking = getattr(error, "lacking", None)
        if lacking is not None:
            document["remedy"] = f"allow it: {lacking.remedy} (docs/acls.md lists what a job needs)"
        if _is_client_config_error(error):
            return document, int(ExitCode.BAD_CONFIGURATION)
        return document, int(ExitCode.RETRIABLE if retriable else ExitCode.FAILED)
    if isinstance(error, OSError):
        return _document(error, error.strerror or str(error), path=error.filename), int(ExitCode.FAILED)
    document = _document(error, f"unexpected {type(error).__name__}: {_first_line(error)}")
    document["remedy"] = "run it again with --debug for the traceback"
    return document, int(ExitCode.FAILED)


def _is_client_config_error(error: BaseException) -> bool:
    errors = sys.modules.get("kseg.client.errors")  # it is imported if it raised the error
    return errors is not None and isinstance(error, errors.ConfigError)


def _document(error: BaseException, message: str, kind: str | None = None, **address: Any) -> dict[str, Any]:
    found = {name: value for name in _ADDRESS_NAMES if (value := getattr(error, name, None)) is not None}
    found |= {name: value for name, value in address.items() if value is not None}
    cause = error.__cause__
    return {
        "kind": kind or type(error).__name__,
        "message": message,
        "address": {name: value if isinstance(value, int) else str(value) for name, value in found.items()},
        "cause": f"{type(cause).__name__}: {_first_line(cause)}" if cause is not None else None,
        "remedy": getattr(error, "remedy", None),
        "retriable": False,
    }


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    if hasattr(error, "java_exception") and len(lines) > 1:  # py4j's first line names nothing but a call
        return lines[1].removeprefix(": ")
    return lines[0]


def print_failure(failure: Failure, *, debug: bool) -> None:
    """The error as text, on stderr."""
    document = failure.document
    code = f" ({document['code']})" if document.get("code") else ""
    _line("error", f"{document['message']}{code}", "red")
    if document["address"]:
        _line("where", ", ".join(f"{name}={value}" for name, value in document["address"].items()))
    for fault in failure.faults:
        place = (fault.path or "(document)") + (f" (line {fault.line})" if fault.line is not None else "")
        _line(place, REDACTOR.clean(fault.message), "yellow", indent=2)
        if fault.remedy:
            _line("do", REDACTOR.clean(fault.remedy), indent=4)
    if document["cause"]:
        _line("cause", document["cause"])
    if document["remedy"] and not failure.faults:
        _line("do", document["remedy"])
    if failure.extra.get("report"):
        _line("report", failure.extra["report"])
    if debug:
        click.echo(failure.trace, err=True, nl=False)


def _line(label: str, text: str, colour: str | None = None, *, indent: int = 0) -> None:
    click.echo(" " * indent + click.style(f"{label}:", fg=colour, bold=colour is not None) + f" {text}", err=True)
