"""Read throughput of log files: gigabytes and rows per second by codec, record size, batch size and reader.

All readers read the same partitions in turn. A real broker wrote them, and they are in the page cache. Rounds are
repeated, and each ratio compares two reads of one round, so that a change of the machine's speed affects both.
`kseg.jobs.bench.readers` describes what each reader does and does not do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any, Final

from kseg.etl.telemetry.progress import Progress
from kseg.jobs.bench import shapes
from kseg.jobs.bench.contenders import WrongCount
from kseg.jobs.bench.readers import Alone, JavaLogReader, ReadTime, broker, files, timed
from kseg.jobs.bench.shapes import LogShape, ShapeSample

FILES, BROKER, ALONE, READ_ALONE, JAVA, JAVA_NULL = "files", "broker", "alone", "read_alone", "java", "java_null"

CAVEATS: Final = (
    "Java prints a line of text a record, without key and value; files and broker return Arrow columns with both",
    "java: the time of a process that reads an empty segment is subtracted, in each round",
    "java: the time of its JIT compiler counts; with files as small as those of --quick, it is most of the time",
    "alone is not a reader: it does not read, verify or parse anything, so readers of small records take much longer",
)


@dataclass(frozen=True, slots=True)
class LogFilesEffort:
    """size: bytes of keys and values in a partition. java_rounds: the number of rounds in which Java is measured."""

    shapes: Sequence[LogShape]
    size: int
    rounds: int
    java_rounds: int


FULL: Final = LogFilesEffort(shapes.ALL, 64 << 20, 5, 2)
QUICK: Final = LogFilesEffort([shape for shape in shapes.ALL if shape.record_bytes == 200], 4 << 20, 3, 1)

Timings = dict[str, list[ReadTime]]
Ways = dict[str, Callable[[], int]]


def measure(servers: str, log_dir: Path, folder: Path, effort: LogFilesEffort, progress: Progress) -> dict[str, Any]:
    """Read all partitions with all readers in each round. log_dir: the broker's. folder: for Java's output.

    Raises WrongCount.
    """
    progress.phase("write the files")
    samples = shapes.write(servers, log_dir, effort.shapes, effort.size, progress)
    java = JavaLogReader(folder)
    ways = {sample.shape: _ways(sample) for sample in samples}
    taken: dict[LogShape, Timings] = {sample.shape: {} for sample in samples}
    progress.phase("read the files")
    progress.total((effort.rounds + 1) * sum(sample.rows for sample in samples))
    for number in range(effort.rounds + 1):  # the first round warms up all readers
        start = timed(java.started, 0) if 0 < number <= effort.java_rounds else None
        for sample in samples:
            found = {way: timed(work, sample.rows) for way, work in ways[sample.shape].items()}
            if start is not None:
                found |= _java(java, sample, start)
            if number:
                for way, seconds in found.items():
                    taken[sample.shape].setdefault(way, []).append(seconds)
            progress.advance(sample.rows)
    return {
        "bytes_a_partition": effort.size,
        "rounds": effort.rounds,
        "ratios": [_ratios(sample.shape, taken[sample.shape]) for sample in samples],
        "rates": [_rates(sample, way, seconds) for sample in samples for way, seconds in taken[sample.shape].items()],
        "caveats": list(CAVEATS),
    }


def _ways(sample: ShapeSample) -> Ways:
    alone = Alone(sample)
    return {FILES: files(sample), ALONE: alone.in_memory, READ_ALONE: alone.read, BROKER: broker(sample)}


def _java(java: JavaLogReader, sample: ShapeSample, start: ReadTime) -> dict[str, ReadTime]:
    to_file = timed(partial(java.to_file, sample), sample.rows)
    to_null = timed(partial(java.to_null, sample), sample.rows)
    if java.records() != sample.rows:
        raise WrongCount(f"Java's tool found {java.records()} records, there are {sample.rows}")
    return {way: _less(taken, start) for way, taken in ((JAVA, to_file), (JAVA_NULL, to_null))}


def _less(taken: ReadTime, start: ReadTime) -> ReadTime:
    """The time without the start of the process; at least a millisecond, because with small files there is no more."""
    return ReadTime(max(taken.wall - start.wall, 1e-3), max(taken.cpu - start.cpu, 1e-3))


def _rates(sample: ShapeSample, way: str, taken: Sequence[ReadTime]) -> dict[str, Any]:
    """Rates by CPU time: of the file's bytes, of keys and values, and of rows; with the lowest and highest of rows."""
    cpu = [one.cpu for one in taken]
    middle = median(cpu)
    return {
        "files": sample.shape.name,
        "way": way,
        "file_gigabytes_per_second": round(sample.file_bytes / middle / 1e9, 3),
        "gigabytes_per_second": round(sample.row_bytes / middle / 1e9, 3),
        "million_rows_per_second": round(sample.rows / middle / 1e6, 3),
        "least": round(sample.rows / max(cpu) / 1e6, 3),
        "most": round(sample.rows / min(cpu) / 1e6, 3),
        "wall_million_rows_per_second": round(sample.rows / median(one.wall for one in taken) / 1e6, 3),
    }


def _ratios(shape: LogShape, taken: Timings) -> dict[str, Any]:
    """Medians over rounds, by CPU time unless `wall` is in the name.

    java…, broker…: how many times as fast as with these readers the files are read.
    …alone…: how many times as long as decompression and memcpy this takes; with the lowest and highest of all rounds.
    """

    def times(way: str, figure: str) -> list[float]:
        of = attrgetter(figure)
        return [of(theirs) / of(ours) for ours, theirs in zip(taken[FILES], taken.get(way, ()), strict=False)]

    alone = [1 / ratio for ratio in times(ALONE, "cpu")]
    return {
        "files": shape.name,
        "java": _middle(times(JAVA, "cpu")),
        "java_wall": _middle(times(JAVA, "wall")),
        "java_null": _middle(times(JAVA_NULL, "cpu")),
        "java_null_wall": _middle(times(JAVA_NULL, "wall")),
        "broker": _middle(times(BROKER, "cpu")),
        "broker_wall": _middle(times(BROKER, "wall")),
        "alone": _middle(alone),
        "alone_least": round(min(alone), 2),
        "alone_most": round(max(alone), 2),
        "read_alone": _middle([1 / ratio for ratio in times(READ_ALONE, "cpu")]),
    }


def _middle(values: Sequence[float]) -> float | None:
    return round(median(values), 2) if values else None
