"""Typed errors from a worker to the driver.

Spark turns whatever a Python worker raises into text. So the worker raises `TransportedError`, whose text ends with the
pickled error, and the driver finds it in the text of Spark's own exception:

    <what a person reads>
    [kseg-error <token> <base64 of the pickled error>]

The token is random and known to this driver and its tasks alone. Without it nothing is unpickled: the text around the
mark may hold bytes of a record, which anybody who can produce to the topic has chosen.
"""

from __future__ import annotations

import base64
import pickle
import re
import secrets
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from kseg.client.errors import KafkaError
from kseg.etl.errors import KsegError
from kseg.etl.source.errors import WorkerError
from kseg.segment_reader.errors import RecordFormatError

TYPED = (KsegError, KafkaError, RecordFormatError)


class TransportedError(Exception):
    """What a worker raises; its text holds the error that is meant."""


@dataclass(frozen=True, slots=True)
class ErrorTransport:
    """Carries the errors of one read. Picklable: the tasks get the driver's."""

    token: str = field(default_factory=lambda: secrets.token_hex(16), repr=False)

    def pack(self, error: BaseException) -> TransportedError:
        """The error to raise in the worker. One that is none of ours, or cannot be pickled, becomes a `WorkerError`."""
        typed = error if isinstance(error, TYPED) else WorkerError(f"{type(error).__name__}: {error}")
        # Causes are not pickled, notes are: the driver's traceback then shows where in the worker it happened.
        typed.add_note("In the worker:\n" + "".join(traceback.format_exception(error)))
        try:
            pickled = pickle.dumps(typed)
            pickle.loads(pickled)
        except Exception:
            pickled = pickle.dumps(WorkerError(f"{type(error).__name__}: {error}"))
        packed = base64.b64encode(pickled).decode()
        return TransportedError(f"{type(typed).__name__}: {typed}\n[kseg-error {self.token} {packed}]")

    @contextmanager
    def packing(self) -> Iterator[None]:
        """In the worker: every exception leaves packed."""
        try:
            yield
        except TransportedError:
            raise
        except Exception as error:
            raise self.pack(error) from error

    def find(self, error: BaseException) -> Exception | None:
        """In the driver: the typed error inside of Spark's, if there is one."""
        found = re.search(rf"\[kseg-error {self.token} ([A-Za-z0-9+/=]+)\]", str(error))
        if found is None:
            return None
        unpacked = pickle.loads(base64.b64decode(found[1]))
        return unpacked if isinstance(unpacked, TYPED) else None

    @contextmanager
    def opening(self) -> Iterator[None]:
        """Around a Spark action in the driver: a worker's error comes out typed, Spark's own exception its cause."""
        try:
            yield
        except Exception as error:
            typed = self.find(error)
            if typed is None:
                raise
            raise typed from error
