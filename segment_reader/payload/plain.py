"""Base of the plain decoders: payload by payload, in Python, with one error for a payload that has no row.

A format gives the row of one payload. Its errors get their path from the innermost step on, on their way out.

A decoder may also put nulls in place of values that cannot be decoded, each at its depth (`Nulling`): formats name
such values by `nullable`. A payload whose structure is broken has no row all the same.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Literal, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from kseg.segment_reader.payload.decoder import DecodedPayloads, PayloadError, Status

_T = TypeVar("_T")

OF_VALUES: Final = frozenset(
    {
        Status.INVALID_UTF8,
        Status.WRONG_TYPE,
        Status.OUT_OF_RANGE,
        Status.INEXACT,
        Status.DUPLICATE_KEY,
        Status.UNKNOWN_SYMBOL,
        Status.MISSING_FIELD,
        Status.INCOMPATIBLE_SCHEMA,
    }
)
"""What is wrong with one value of a payload whose structure is sound."""


class BadPayload(Exception):
    """A payload without a row. path: `.items[2].price`, its first dot may be missing. place: the same where the path
    does not show which of its steps are the keys of maps: `tags[]`."""

    def __init__(self, status: Status, message: str, path: str = "", place: str = "") -> None:
        super().__init__(status, message)
        self.status, self.message, self.path, self.place = status, message, path, place


class Nulling:
    """Has decoders put nulls in place of values that cannot be decoded, and counts them: one for each thread.

    places: the number of payloads with a null at each place, without the indexes of lists and the keys of maps. errors:
    of the values of the last payload, by place the first one, in the order in which they were met.
    """

    def __init__(self) -> None:
        self.places: Counter[str] = Counter()
        self.errors: dict[str, PayloadError] = {}
        self._steps: list[str] = []

    def row(self, call: Callable[..., _T], *arguments: Any) -> _T:
        """The call's result, of one payload."""
        self._steps, self.errors = [], {}
        token = _NULLING.set(self)
        try:
            row = call(*arguments)
        finally:
            _NULLING.reset(token)
        self.places.update(iter(self.errors))
        return row

    def found(self, place: str, count: int, status: Status, reason: str) -> None:
        """Nulls of so many payloads that are found in a whole column."""
        self.places[place] += count
        self.errors.setdefault(place, PayloadError(status, place, reason))

    def within(self, step: str, call: Callable[..., _T], *arguments: Any) -> _T:
        self._steps.append(step)
        try:
            return call(*arguments)
        finally:
            self._steps.pop()

    def value(self, call: Callable[..., _T], *arguments: Any) -> _T | None:
        """The call's result; None if it is a value that cannot be decoded."""
        try:
            return call(*arguments)
        except BadPayload as error:
            if error.status not in OF_VALUES:
                raise
            # The key of a map may be any text, and so end early.
            steps = ("[]" if step.startswith("[") else step for step in self._steps)
            place = without_indexes("".join([*steps, error.place or error.path]))
            path = "".join([*self._steps, error.path]).removeprefix(".")
            self.errors.setdefault(place, PayloadError(error.status, path, error.message))
            return None


_NULLING: ContextVar[Nulling | None] = ContextVar("nulling", default=None)
"""That of the payload that is being decoded."""

Engine: TypeAlias = Literal["fast", "reference"] | Nulling
"""The compiled decoder, the one in plain Python, or that one with nulls in place of values that cannot be decoded."""

_INDEX: Final = re.compile(r'\[(?:\d+|"(?:[^"\\]|\\.)*"|[^\]]*)\]')


def without_indexes(path: str) -> str:
    """`items[2].price` as `items[].price`."""
    return _INDEX.sub("[]", path.removeprefix("."))


def nullable(call: Callable[..., _T], *arguments: Any) -> _T | None:
    """The call's result, a value; None in place of one that cannot be decoded, if the decoder nulls such values."""
    nulling = _NULLING.get()
    return call(*arguments) if nulling is None else nulling.value(call, *arguments)


def nulls_values() -> bool:
    """Whether the payload that is being decoded gets nulls in place of values that cannot be decoded."""
    return _NULLING.get() is not None


def within(step: str, call: Callable[..., _T], *arguments: Any) -> _T:
    """The call's result; its errors get the step before their path."""
    if (nulling := _NULLING.get()) is not None:
        return nulling.within(step, call, *arguments)
    try:
        return call(*arguments)
    except BadPayload as error:
        error.path = step + error.path
        raise


class PlainDecoder(ABC):
    """See `segment_reader.payload.decoder.PayloadDecoder`. nulling: set by `with_engine`."""

    nulling: Nulling | None = None

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
        return self.row(payload, skip) if self.nulling is None else self.nulling.row(self.row, payload, skip)


_D = TypeVar("_D", bound=PlainDecoder)


def with_engine(decoder: _D, engine: Engine) -> _D:
    """A plain decoder as this engine, which is not the compiled one."""
    decoder.nulling = engine if isinstance(engine, Nulling) else None
    return decoder
