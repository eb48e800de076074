"""Typed errors from a worker to the driver.

Spark turns whatever a Python worker raises into text. So the worker raises `TransportedError`, whose text ends with the
error as JSON (`etl.tasks.error_json`), and the driver finds it in the text of Spark's own exception:

    <what a person reads>
    [kseg-error <token> <base64 of the JSON>]

The text is not trusted: around the mark it may hold bytes of a record, chosen by any producer to the topic, and over
Spark Connect all of it is the server's. The token is random, and keeps records from being taken for errors; a server
knows it, and can at most make us raise one of our own errors.
"""

from __future__ import annotations

import base64
import json
import re
import secrets
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from kseg.etl.tasks.error_json import error_document, error_of_document, typed

_MARK: Final = re.compile(r"\[kseg-error (?P<token>[0-9a-f]+) (?P<packed>[A-Za-z0-9+/=]+)\]")
IN_WORKER: Final = "In the worker:\n"
"""How the note with a worker's traceback begins."""

_TRACEBACK_CHARACTERS: Final = 20_000


class TransportedError(Exception):
    """The exception that a worker raises; its text has the error that is meant."""


@dataclass(frozen=True, slots=True)
class ErrorTransport:
    """Carries the errors of one read. Picklable: the tasks get the driver's."""

    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    def pack(self, error: BaseException) -> TransportedError:
        """The error to raise in the worker. One that is none of ours becomes a `WorkerError`."""
        meant = typed(error)
        document = error_document(meant)
        # Where in the worker it happened is a note: a traceback does not travel.
        where = "".join(traceback.format_exception(error))
        document["notes"].append(IN_WORKER + where[-_TRACEBACK_CHARACTERS:])
        packed = base64.b64encode(json.dumps(document).encode()).decode()
        return TransportedError(f"{type(meant).__name__}: {meant}\n[kseg-error {self.token} {packed}]")

    @contextmanager
    def packing(self) -> Iterator[None]:
        """In the worker: every exception leaves packed, also those that are no `Exception`: of libraries that end the
        process (`sys.exit`), and panics of those that are written in Rust."""
        try:
            yield
        except (TransportedError, GeneratorExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise self.pack(error) from error

    def find(self, error: BaseException) -> Exception | None:
        """In the driver: the typed error inside of Spark's, if there is one."""
        return self.find_in(str(error))

    def find_in(self, text: str) -> Exception | None:
        """The typed error in the text of one of Spark's, if there is one."""
        for found in _MARK.finditer(text):
            if secrets.compare_digest(found["token"], self.token):
                return _unpacked(found["packed"])
        return None

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around a Spark action in the driver: a worker's error comes out typed, raised from what it was raised from
        there. Spark's own exception is its context."""
        try:
            yield
        except Exception as error:
            found = self.find(error)
            if found is None:
                raise
            raise found from found.__cause__


def _unpacked(packed: str) -> Exception:
    try:
        document = json.loads(base64.b64decode(packed))
    except (ValueError, RecursionError):
        document = None
    return error_of_document(document)


def without_packed(text: str) -> str:
    """Text of Spark's without the packed errors, which are not readable."""
    return _MARK.sub("[kseg-error …]", text)
