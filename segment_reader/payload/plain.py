"""What the plain decoders share: payload by payload, in Python, with one error for a payload that has no row.

A format gives the row of one payload. Its errors get their path from the innermost step on, on their way out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status

_T = TypeVar("_T")


class BadPayload(Exception):
    """A payload without a row. path: `.items[2].price`, its first dot may be missing."""

    def __init__(self, status: Status, message: str, path: str = "") -> None:
        super().__init__(status, message)
        self.status, self.message, self.path = status, message, path


def within(step: str, call: Callable[..., _T], *arguments: Any) -> _T:
    """The call's result; its errors get the step before their path."""
    try:
        return call(*arguments)
    except BadPayload as error:
        error.path = step + error.path
        raise


class PlainDecoder(ABC):
    """See `segment_reader.payload.decoder.PayloadDecoder`."""

    @property
    @abstractmethod
    def type(self) -> pa.DataType: ...

    @abstractmethod
    def row(self, payload: bytes, skip: int = 0) -> Any:
        """The payload's row, as pyarrow takes it for the type. Raises BadPayload."""

    def decode(self, payloads: pa.BinaryArray, *, skip: int = 0) -> DecodedPayloads:
        status = np.zeros(len(payloads), np.uint8)
        rows: list[Any] = []
        for number, payload in enumerate(payloads.to_pylist()):
            row = None
            if payload is None:
                status[number] = Status.NULL
            else:
                try:
                    row = self._checked(payload, skip)
                except BadPayload as error:
                    status[number] = error.status
            rows.append(row)
        return DecodedPayloads(pa.array(rows, self.type), status)

    def explain(self, payload: bytes, *, skip: int = 0) -> PayloadError:
        try:
            self._checked(payload, skip)
        except BadPayload as error:
            return PayloadError(error.status, error.path.removeprefix("."), error.message)
        raise ValueError("the payload has no error")

    def _checked(self, payload: bytes, skip: int) -> Any:
        if len(payload) < skip:
            raise BadPayload(Status.BAD_FRAME, f"{len(payload)} bytes, fewer than the frame's {skip}")
        return self.row(payload, skip)
