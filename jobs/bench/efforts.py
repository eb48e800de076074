"""The amount of data and rounds of a benchmark: full or quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kseg.jobs.bench import cold, day, floor, log_files, matrix, scaling


@dataclass(frozen=True, slots=True)
class Effort:
    """rows: records of the topic that jobs and the section memory read. rounds, …_times: number of measurements, whose
    median is reported.

    warm_up: rounds before the measured ones, in the Spark session and for producers. extremes: factor of the sizes of
    unusual payloads. lake_rows: records of each topic with 40 columns. cold_rows, peers_rows: records of the topics
    that whole processes land.
    """

    rows: int
    rounds: int
    warm_up: int
    decode_times: int
    decode_batches: int
    produce_rows: int
    cold_times: int
    memory_times: int
    files: log_files.LogFilesEffort
    scaling: scaling.ScalingEffort
    matrix: matrix.MatrixEffort
    floor: floor.FloorEffort
    day: day.DayEffort
    extremes: float
    lake_rows: int
    cold_rows: tuple[int, ...]
    peers_rows: int


FULL: Final = Effort(
    rows=2_000_000,
    rounds=5,
    warm_up=1,
    decode_times=15,
    decode_batches=16,
    produce_rows=500_000,
    cold_times=5,
    memory_times=3,
    files=log_files.FULL,
    scaling=scaling.FULL,
    matrix=matrix.FULL,
    floor=floor.FULL,
    day=day.FULL,
    extremes=1.0,
    lake_rows=1_000_000,
    cold_rows=cold.ROWS,
    peers_rows=1_000_000,
)
QUICK: Final = Effort(
    rows=100_000,
    rounds=2,
    warm_up=1,
    decode_times=5,
    decode_batches=16,
    produce_rows=50_000,
    cold_times=1,
    memory_times=1,
    files=log_files.QUICK,
    scaling=scaling.QUICK,
    matrix=matrix.QUICK,
    floor=floor.QUICK,
    day=day.QUICK,
    extremes=0.05,
    lake_rows=50_000,
    cold_rows=cold.ROWS,
    peers_rows=100_000,
)
