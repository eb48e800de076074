"""A run's progress on stderr: bars on a terminal, plain lines in a log, or nothing.

    --progress total        one bar: rows, rows/s, MB/s, offsets left, time left        the default on a terminal
    --progress partitions   the same, and a bar for each partition (at most 20, those with most offsets left)
    --progress lines        a line every 10 seconds                                     the default elsewhere
    --progress none         nothing

Progress counts what ended tasks have read (`etl.telemetry.progress` explains why); rates are over the last 30 seconds.
"""

from __future__ import annotations

import sys
from typing import IO, TYPE_CHECKING, Literal, Self

from kseg.etl.telemetry.progress import NullProgress
from kseg.jobs.progress.lines import LineProgress

if TYPE_CHECKING:
    from kseg.jobs.progress.bars import BarProgress

Form = Literal["partitions", "total", "lines", "none"]
FORMS: tuple[Form, ...] = ("partitions", "total", "lines", "none")


class SilentProgress(NullProgress):
    """Shows neither progress nor messages; the result has the important messages."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def progress_for(
    stream: IO[str] | None = None, form: Form | None = None
) -> LineProgress | BarProgress | SilentProgress:
    """The listener that shows progress; by default on stderr, because stdout is for the result."""
    stream = stream if stream is not None else sys.stderr
    if form is None:
        form = "total" if stream.isatty() else "lines"
    if form == "none":
        return SilentProgress()
    if form == "lines":
        return LineProgress(stream)
    from kseg.jobs.progress.bars import BarProgress

    return BarProgress(stream, partitions=form == "partitions")
