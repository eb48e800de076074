"""How much a benchmark measures: everything, or a quick part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kseg.jobs.bench import floor, log_files, matrix, scaling


@dataclass(frozen=True, slots=True)
class Effort:
    """rows: of the topic that jobs and memory read. rounds, and what ends in times: whose median is reported.

    warm_up: rounds before the measured ones, in the Spark session and among producers. extremes: a factor for the sizes
    of unusual payloads. lake_rows: of each topic whose records have 40 columns.
    """

    rows: int
    rounds: int
    warm_up: int
    decode_times: int
    decode_batches: int
    produce_rows: int
    cold_times: int
    memory_times: int
    files: log_files.Effort
    scaling: scaling.Effort
    matrix: matrix.Effort
    floor: floor.Effort
    extremes: float
    lake_rows: int


FULL: Final = Effort(
    2_000_000, 5, 1, 15, 16, 500_000, 5, 3, log_files.FULL, scaling.FULL, matrix.FULL, floor.FULL, 1.0, 1_000_000
)
QUICK: Final = Effort(
    100_000, 2, 1, 5, 16, 50_000, 1, 1, log_files.QUICK, scaling.QUICK, matrix.QUICK, floor.QUICK, 0.05, 50_000
)
