"""Progress that is not shown."""

from __future__ import annotations

from typing import Self

from kseg.etl.telemetry.progress import NullProgress


class SilentProgress(NullProgress):
    """Shows neither progress nor messages; the result has the important messages."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
