"""Puts the remedy into the first line of an error's text: Spark shows only this line."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType

from kseg.etl.errors import KsegError


class RemediesTold(ContextDecorator):
    """A `KsegError` that leaves this block, or this function, has its remedy in the first line of its text."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KsegError):
            error.tells_remedy = True
