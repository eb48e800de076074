"""Which records of a batch a step of the user raises for: the batch is halved until they are alone.

A step has rows and not their records, and may drop and add some. So all steps behind decoding run on parts of the batch
as it was before them: a record for which they raise has no row at all.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from kseg.etl.source.errors import ArrowStepError

Steps = Callable[[pa.RecordBatch], pa.RecordBatch]


class MoreThanAllowed(Exception):
    """More records fail than may. failing: those that were found, by their rows."""

    def __init__(self, failing: dict[int, ArrowStepError]) -> None:
        super().__init__(f"{len(failing)} records fail")
        self.failing = failing


def without_failing(
    batch: pa.RecordBatch, steps: Steps, error: ArrowStepError, most: int | None = None
) -> tuple[list[pa.RecordBatch], dict[int, ArrowStepError]]:
    """What the steps give for a batch less the records that they raise for, in its order; and these, by their rows.

    error: what they raised for the whole batch. most: with more records than these, the search ends.

    Raises:
        ArrowStepError: the error, if it is of no single record: a part is refused, and its halves are not.
        MoreThanAllowed
    """
    outputs: list[pa.RecordBatch] = []
    failing: dict[int, ArrowStepError] = {}

    def halve(start: int, end: int, error: ArrowStepError) -> None:
        if error.raised is None:
            raise error
        if end - start == 1:
            failing[start] = error
            if most is not None and len(failing) > most:
                raise MoreThanAllowed(failing)
            return
        middle = (start + end) // 2
        known = len(failing)
        for low, high in ((start, middle), (middle, end)):
            try:
                outputs.append(steps(batch.slice(low, high - low)))
            except ArrowStepError as of_part:
                halve(low, high, of_part)
        if len(failing) == known:
            raise error

    halve(0, batch.num_rows, error)
    return outputs, failing
