"""Progress that nobody sees."""

from __future__ import annotations

from typing import Self

from kseg.etl.telemetry.progress import NullProgress


class SilentProgress(NullProgress):
    """Shows nothing, also no messages: what matters of them stands in the result."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
