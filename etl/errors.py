"""kseg's errors. An error has a message, an address, a remedy, and the exit code for schedulers.

    KsegError                 1   any error that is not one of the following
    ├── ConfigurationError    2   the job file, an argument or a store's options are wrong: all errors at once
    ├── Refused               3   state does not agree, or data would be lost: a person has to decide
    ├── RetriableFailure      4   a broker or the storage is not available: the same command may succeed later
    └── AnotherRunActive      5   another run of this job and chain has a live lease

An error has its *address* (topic, partition, table, run …) as data, so that reports can show it and tests can compare
it. Tasks send errors to the driver as JSON (`etl.tasks.error_json`). An error is rebuilt from its attributes, not from
its constructor's arguments, so a subclass may have any constructor. Pickling works in the same way.

What is said of an error stands in the catalogue, `etl.refusals`: exit codes, the sentences of refusals by code, and
causes and remedies of all others by class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, ClassVar, Final, Self

from kseg.etl.refusals.exit_codes import ExitCode as ExitCode

AddressValue = str | int
_LONGEST_SUMMARY: Final = 300


def listed(items: Iterable[object], most: int = 10) -> str:
    """Items for a message: the first ones with commas between them, then " and 3 more" where others follow."""
    texts = [str(item) for item in items]
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def summary(error: BaseException) -> str:
    """An error in one line: its class, and the first line of its text."""
    if isinstance(error, KsegError):
        text = error.summary
    else:
        lines = str(error).strip().splitlines() or [""]
        if hasattr(error, "java_exception") and len(lines) > 1:  # py4j's first line names nothing but a call
            lines = [lines[1].removeprefix(": ")]
        text = f"{type(error).__name__}: {lines[0]}"
    return text if len(text) <= _LONGEST_SUMMARY else f"{text[:_LONGEST_SUMMARY]}…"


def _rebuild(cls: type[KsegError], args: tuple[object, ...], state: dict[str, Any]) -> KsegError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class KsegError(Exception):
    """Base class of kseg's errors.

    Args:
        message: the cause, in one sentence, without secrets.
        remedy: what the user can do.
        address: the place, by name (`topic="orders", partition=3`); None values are left out.
    """

    exit_code: ClassVar[ExitCode] = ExitCode.FAILED
    retriable: bool = False
    #: Whether the first line of the text has the remedy, too: for programs that show that line alone.
    tells_remedy: bool = False

    def __init__(self, message: str, *, remedy: str | None = None, **address: AddressValue | None) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        self.address: dict[str, AddressValue] = {k: v for k, v in address.items() if v is not None}

    def __str__(self) -> str:
        return self._addressed(self.message, self.remedy if self.tells_remedy else None)

    def _addressed(self, text: str, remedy: str | None = None) -> str:
        """A text with the address, and the remedy, at the end of its first line."""
        first, end, further = text.partition("\n")
        address = ", ".join(f"{name}={value}" for name, value in self.address.items())
        return "".join([first, f" ({address})" if address else "", f" — {remedy}" if remedy else "", end, further])

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, dict(self.__dict__))

    @property
    def kind(self) -> str:
        """The error's stable name in JSON output."""
        return type(self).__name__

    @property
    def without_remedy(self) -> str:
        """What is wrong and where, without what to do."""
        return str(self)

    @property
    def to_do(self) -> str | None:
        """What the user can do, for those who keep or show an error as one message and one remedy."""
        return self.remedy

    @property
    def summary(self) -> str:
        """In one line."""
        first_line = str(self).partition("\n")[0]
        return f"{self.kind}: {first_line}"

    def to_json(self) -> dict[str, Any]:
        """The value of "error" with `--json`: kind, message, address, cause (one line), remedy, retriable."""
        return {
            "kind": self.kind,
            "message": self.message,
            "address": dict(self.address),
            "cause": summary(self.__cause__) if self.__cause__ is not None else None,
            "remedy": self.remedy,
            "retriable": self.retriable,
        }


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One error in a job file or in a command's arguments, with its place, as compilers and editors report it.

    path: dotted path (`source.isolation_level`, `transform[1].sql`, `--interval`); "": the whole document.
    line: line in the file, from 1 on, if known.
    """

    path: str
    message: str
    remedy: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.place}: " if self.place else ""
        return place + self.message + (f" — {self.remedy}" if self.remedy else "")

    @property
    def place(self) -> str:
        """Path and line, as far as there are any."""
        if self.line is None:
            return self.path
        return f"{self.path} (line {self.line})" if self.path else f"line {self.line}"


class ConfigurationError(KsegError):
    """The configuration is invalid. `faults` has all errors, in the order of the file."""

    exit_code = ExitCode.BAD_CONFIGURATION

    def __init__(
        self,
        faults: Iterable[Diagnostic] | str,
        *,
        file: str | None = None,
        remedy: str | None = None,
        **address: AddressValue | None,
    ) -> None:
        self.faults: tuple[Diagnostic, ...] = (
            (Diagnostic("", faults, remedy),) if isinstance(faults, str) else tuple(faults)
        )
        self.file = file
        if isinstance(faults, str):
            message = faults
        elif len(self.faults) == 1:
            message = "1 error in the configuration"
        else:
            message = f"{len(self.faults)} errors in the configuration"
        super().__init__(message, remedy=remedy, file=file, **address)

    @classmethod
    def of(cls, path: str, message: str, remedy: str | None = None) -> Self:
        """A ConfigurationError with one fault."""
        return cls([Diagnostic(path, message, remedy)])

    def __str__(self) -> str:
        """Errors and remedies. A single fault is in the first line, because Spark and logs show only this line."""
        if len(self.faults) > 1:
            return "\n".join([super().__str__(), *(f"  {fault}" for fault in self.faults)])
        return self._addressed("".join(map(str, self.faults)))

    @property
    def without_remedy(self) -> str:
        """All faults in one line."""
        return self._addressed("; ".join(str(replace(one, remedy=None)) for one in self.faults))

    @property
    def to_do(self) -> str:
        """The first line of each fault's remedy."""
        remedies = dict.fromkeys(fault.remedy.partition("\n")[0] for fault in self.faults if fault.remedy)
        return "; ".join(remedies) or self.remedy or "correct the job file, then run it again"

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "faults": [asdict(fault) for fault in self.faults]}


class Refused(KsegError):
    """State does not agree, or data would be lost, so a person has to decide. `code` is the reason for programs.

    Args:
        code: kebab-case reason, stable across releases (`topic-recreated`, `group-has-members`, `table-restored` …).
        message: the found and the expected state.
    """

    exit_code = ExitCode.REFUSED

    def __init__(self, code: str, message: str, *, remedy: str | None = None, **address: AddressValue | None) -> None:
        super().__init__(message, remedy=remedy, **address)
        self.code = code

    @classmethod
    def of(
        cls, code: str, values: Mapping[str, object] | None = None, *, case: str = "", **address: AddressValue | None
    ) -> Self:
        """A refusal of the catalogue (`etl/refusals`), which has its sentences.

        values: what the message and the remedy name besides the address. case: by name, where the code has several.
        """
        error = cls.__new__(cls)
        error._say(code, values or {}, case=case, **address)
        return error

    def _say(self, code: str, values: Mapping[str, object], *, case: str = "", **address: AddressValue | None) -> None:
        """Initialise the error as `of` does: for the constructors of subclasses."""
        from kseg.etl.refusals.catalogue import CATALOGUE  # errors are rare, and every process starts with this module

        said = CATALOGUE[code].by_name[case]
        named = {**address, **values}
        remedy = said.remedy.format_map(named) if said.remedy is not None else None
        Refused.__init__(self, code, said.message.format_map(named), remedy=remedy, **address)

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), "code": self.code}


class RetriableFailure(KsegError):
    """A broker or a store did not respond within the deadline; a rerun continues where this run stopped."""

    exit_code = ExitCode.RETRIABLE
    retriable = True


class AnotherRunActive(KsegError):
    """The lease of this job and chain is live and belongs to another run.

    Args:
        owner: the lease's holder in the ledger (host, process, run).
        until: the time at which it expires unless renewed (aware, UTC).
    """

    exit_code = ExitCode.ANOTHER_RUN_ACTIVE
    retriable = True

    def __init__(
        self,
        message: str,
        *,
        owner: str | None = None,
        until: datetime | None = None,
        remedy: str | None = "wait for the other run, or pass --take-over if it is known to be dead",
        **address: AddressValue | None,
    ) -> None:
        super().__init__(message, remedy=remedy, owner=owner, until=until.isoformat() if until else None, **address)
        self.owner = owner
        self.until = until
