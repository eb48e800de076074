"""Errors as documents, as text and as exit codes: what happened, where, why, what to do.

Errors of `kseg.etl` carry all of this. Errors of the Kafka client and the decoder are described by their attributes.
Any other error is unexpected: exit code 1. Tracebacks of workers, of Spark and of unexpected errors are printed with
`--debug`, and written to a log file without it (`error_log`), whose path is shown.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, is_dataclass
from typing import TYPE_CHECKING, Any, Final

import click

from kseg.etl.errors import ConfigurationError, Diagnostic, ExitCode, KsegError, summary
from kseg.jobs.invocation.error_log import full_trace, has_more, write_log
from kseg.jobs.output.redaction import REDACTOR

if TYPE_CHECKING:
    from kseg.etl.refusals.entry import Kind

_ADDRESS_NAMES = (
    "topic", "partition", "offset", "base_offset", "position", "file",
    "group", "transactional_id", "resource", "broker",
)  # fmt: skip


_UNEXPECTED: Final = "unexpected "
_MOST_LINES: Final = 5
_CONTINUES: Final = ": an unfinished run continues"
_MOST_CHARACTERS: Final = 1000


class TerminatedError(BaseException):
    """SIGTERM: unwinds like Ctrl-C does, so that leases are released and processes stopped."""


@dataclass(slots=True)
class Failure:
    """An error as a document. extra: what else is known of the run, added to the document.

    trace: every traceback; log_worthy: whether it has what the document has not.
    """

    exit_code: int
    document: dict[str, Any]
    faults: tuple[Diagnostic, ...] = ()
    trace: str = ""
    log_worthy: bool = False
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"error": self.document, "exit_code": self.exit_code, **self.extra}

    def write_log(self, command: str, job: str | None = None, run: str | None = None) -> None:
        """Write the trace to a log file, if it has more than the document, and add the file's path to the document."""
        error = f"{self.document['kind']}: {self.document['message']}"
        if self.log_worthy and (path := write_log(command, self.trace, job=job, run=run, error=error)) is not None:
            self.extra = {**self.extra, "log": str(path)}


def failure_of(error: BaseException, *, runs: bool = False) -> Failure:
    """An error's document and exit code. runs: of a command that continues an unfinished run."""
    from kseg.etl.refusals.kinds import LATER  # errors are rare, and every process starts with this module
    from kseg.etl.refusals.problems import PROBLEMS

    faults: tuple[Diagnostic, ...] = ()
    if isinstance(error, KsegError):
        faults = error.faults if isinstance(error, ConfigurationError) else ()
        document, code = error.to_json(), int(error.exit_code)
    elif isinstance(error, click.UsageError):
        document, code = _document(error, error.format_message(), kind="UsageError"), int(ExitCode.BAD_CONFIGURATION)
        document["remedy"] = f"{error.ctx.command_path} --help" if error.ctx else "kseg --help"
    elif isinstance(error, KeyboardInterrupt | click.Abort | TerminatedError):
        kind = "Terminated" if isinstance(error, TerminatedError) else "Interrupted"
        document, code = _document(error, kind.lower(), kind=kind), int(ExitCode.FAILED)
        document["remedy"] = PROBLEMS[kind].printed
    else:
        document, code = _foreign(error)
    if runs and document.get("remedy") in (
        LATER,
        *(problem.printed for problem in PROBLEMS.values() if problem.printed),
    ):
        document["remedy"] += _CONTINUES
    whole = document["message"]
    document["message"] = _shortened(whole)
    unexpected = code == ExitCode.FAILED and document["message"].startswith(_UNEXPECTED)
    log_worthy = unexpected or document["message"] != whole or has_more(error)
    return Failure(code, REDACTOR.clean(document), faults, full_trace(error), log_worthy)


def _shortened(message: str) -> str:
    """The message, shortened for people. The text of a worker's or a library's error may have any length."""
    lines = message.splitlines()
    short = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARACTERS]
    return short if len(short) >= len(message.rstrip()) else f"{short} … (the log has the whole text)"


def _foreign(error: BaseException) -> tuple[dict[str, Any], int]:
    """Errors of the client and the decoder, by their attributes and the catalogue; and unexpected ones."""
    from kseg.etl.refusals.kinds import ALLOW, KINDS, LATER

    retriable = getattr(error, "retriable", None)
    if isinstance(retriable, bool):
        kind = KINDS.get(type(error).__name__)
        document = _document(error, str(getattr(error, "message", None) or error), **_batch_address(error))
        document["remedy"] = document["remedy"] or (LATER if retriable else kind.printed if kind else None)
        document["retriable"] = retriable
        lacking = getattr(error, "lacking", None)
        if lacking is not None:
            document["remedy"] = ALLOW.format(permission=lacking.remedy)
        return document, int(_exit_code(error, kind, retriable=retriable))
    if isinstance(error, OSError):
        return _document(error, error.strerror or str(error), path=error.filename), int(ExitCode.FAILED)
    document = _document(error, f"{_UNEXPECTED}{summary(error)}")
    document["remedy"] = "the traceback is in the log, or printed with --debug"
    return document, int(ExitCode.FAILED)


def _batch_address(error: BaseException) -> dict[str, Any]:
    """The address of an error of the decoder, which is one value."""
    address = getattr(error, "address", None)
    return asdict(address) if is_dataclass(address) and not isinstance(address, type) else {}


def _exit_code(error: BaseException, kind: Kind | None, *, retriable: bool) -> ExitCode:
    """The exit code of an error of the client or the decoder. An instance knows more than its class: whether a retry
    may help, or that a setting has to change."""
    if retriable:
        return ExitCode.RETRIABLE
    if getattr(error, "setting", None) is not None:
        return ExitCode.BAD_CONFIGURATION
    usual = kind.exit_code if kind is not None else ExitCode.FAILED
    return ExitCode.FAILED if usual.meaning.retriable else usual


def _document(error: BaseException, message: str, kind: str | None = None, **address: Any) -> dict[str, Any]:
    found = {name: value for name in _ADDRESS_NAMES if (value := getattr(error, name, None)) is not None}
    found |= {name: value for name, value in address.items() if value is not None}
    cause = error.__cause__
    return {
        "kind": kind or type(error).__name__,
        "message": message,
        "address": {name: value if isinstance(value, int) else str(value) for name, value in found.items()},
        "cause": summary(cause) if cause is not None else None,
        "remedy": getattr(error, "remedy", None),
        "retriable": False,
    }


def print_failure(failure: Failure, *, debug: bool) -> None:
    """The error as text, on stderr."""
    from kseg.jobs.explanations.index import explanation_of

    document = failure.document
    code = f" ({document['code']})" if document.get("code") else ""
    _line("error", f"{document['message']}{code}", "red")
    if document["address"]:
        _line("where", ", ".join(f"{name}={value}" for name, value in document["address"].items()))
    for fault in failure.faults:
        message = REDACTOR.clean(fault.message)
        if fault.place or message != document["message"]:
            _line(fault.place or document["address"].get("file", "the command"), message, "yellow", indent=2)
        if fault.remedy:
            _line("do", REDACTOR.clean(fault.remedy), indent=4)
    if document["cause"] and document["cause"] not in document["message"]:
        _line("cause", document["cause"])
    if document["remedy"] and not failure.faults:
        _line("do", document["remedy"])
    if not failure.faults and explanation_of(name := str(document.get("code") or document["kind"])):
        _line("more", f"kseg explain {name}")
    if failure.extra.get("report"):
        _line("report", failure.extra["report"])
    if failure.extra.get("log"):
        _line("log", failure.extra["log"])
    if debug:
        click.echo(failure.trace, err=True, nl=False)


def _line(label: str, text: str, colour: str | None = None, *, indent: int = 0) -> None:
    from kseg.client.protocol.printable import printable

    text = printable(text, keep="\n")
    click.echo(" " * indent + click.style(f"{label}:", fg=colour, bold=colour is not None) + f" {text}", err=True)
