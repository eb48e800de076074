"""What to do about an error, where Spark shows the first line of its text and nothing else."""

from __future__ import annotations

from contextlib import ContextDecorator
from types import TracebackType

from kseg.etl.errors import KsegError


class RemediesTold(ContextDecorator):
    """Errors of ours that leave this block, or this function, have their remedy in the first line of their text."""

    def __enter__(self) -> None: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KsegError):
            error.tells_remedy = True
