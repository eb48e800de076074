"""Progress that is not shown."""

from __future__ import annotations

from typing import Self

from kseg.etl.telemetry.progress import NullProgress


class SilentProgress(NullProgress):
    """Shows nothing, also no messages: the result has those that matter."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
