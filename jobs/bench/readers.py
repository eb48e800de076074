"""The compared readers: this project from files and from the broker, only decompression, and Java.

files       what a Spark task does: files to Arrow batches, with checksums verified and aborted transactions left out
broker      the same rows, fetched as in a task from the broker that wrote the files; the broker's CPU time is not
            counted
alone       the same batches decompressed by the same codecs, and as many bytes copied as their keys and values have;
            nothing is read from the file, verified or parsed
read_alone  the same, with reading of the file
java        `DumpLogSegments --deep-iteration` into a file: one line of text for each record, without key and value
java_null   the same into /dev/null
"""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.origin import LogFiles, Origin
from kseg.etl.source.reader import RangeReader
from kseg.etl.source.tasks import RangeTask
from kseg.jobs.bench.contenders import WrongCount
from kseg.jobs.bench.shapes import ShapeSample
from kseg.jobs.bench.workload import client_config
from kseg.jobs.broker import jars
from kseg.jobs.broker.java import find_java
from kseg.segment_reader.codecs.registry import decompress
from kseg.segment_reader.decode.batch import RECORDS_AT, Frame, frames
from kseg.segment_reader.log.scan.record_sets import WINDOW_BYTES

#: The options with which bin/kafka-run-class.sh starts tools.
_JAVA_OPTIONS: Final = ("-Xmx256M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
_DUMP: Final = "org.apache.kafka.tools.DumpLogSegments"
_RECORD_LINE: Final = b"| offset: "

Work = Callable[[], int]


class ReadTime(NamedTuple):
    """Seconds of one read: wall time, and CPU time (of all threads; for Java, of the child process)."""

    wall: float
    cpu: float


def timed(work: Work, rows: int) -> ReadTime:
    """The time of one read. Raises WrongCount if it returns another number of rows."""
    wall, cpu = time.perf_counter(), _processor_time()
    found = work()
    taken = ReadTime(time.perf_counter() - wall, _processor_time() - cpu)
    if found != rows:
        raise WrongCount(f"{found} rows were read of {rows}")
    return taken


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def files(sample: ShapeSample) -> Work:
    """The rows from the partition's folder."""
    return lambda: _rows(sample, LogFiles((str(sample.folder.parent),)))


def broker(sample: ShapeSample) -> Work:
    """The rows from the broker."""
    return lambda: _rows(sample, client_config(sample.servers))


def _rows(sample: ShapeSample, origin: Origin) -> int:
    task = RangeTask(sample.tp.topic, sample.tp.partition, 0, sample.rows, folder=str(sample.folder))
    return sum(batch.num_rows for batch in RangeReader(task, origin, DecodeOptions()))


class Alone:
    """Decompression and memcpy. The batches' positions are known in advance, and the target buffer is reused."""

    def __init__(self, sample: ShapeSample) -> None:
        self._share = sample.row_bytes / sample.rows
        self._target = memoryview(bytearray(8 << 20))
        self._window = memoryview(b"")
        self._buffer = memoryview(bytearray(2 << 20))
        self._files: list[tuple[Path, bytes, list[list[Frame]]]] = []
        for path in sample.files:
            data = path.read_bytes()
            self._files.append((path, data, list(_windows(data))))

    def in_memory(self) -> int:
        """From bytes in memory; returns the number of rows by the batches' headers."""
        return sum(self._copied(memoryview(data), 0, window) for _, data, windows in self._files for window in windows)

    def read(self) -> int:
        """From the file, in windows as large as the reader's."""
        rows = 0
        for path, _, windows in self._files:
            with path.open("rb", buffering=0) as file:
                for window in windows:
                    start, stop = window[0].position, window[-1].position + window[-1].size
                    if len(self._window) < stop - start:
                        self._window = memoryview(bytearray(stop - start))
                    os.preadv(file.fileno(), [self._window[: stop - start]], start)
                    rows += self._copied(self._window, start, window)
        return rows

    def _copied(self, data: memoryview, start: int, window: list[Frame]) -> int:
        rows, at, target = 0, 0, self._target
        for frame in window:
            first = frame.position - start
            packed = data[first + RECORDS_AT : first + frame.size]
            body = memoryview(decompress(frame.codec, packed, buffer=self._buffer))
            size = int(frame.record_count * self._share)
            at = 0 if at + size > len(target) else at
            target[at : at + size] = body[:size]
            at += size
            rows += frame.record_count
        return rows


def _windows(data: bytes) -> Iterator[list[Frame]]:
    window: list[Frame] = []
    for frame in frames(data):
        if window and frame.position + frame.size > window[0].position + WINDOW_BYTES:
            yield window
            window = []
        window.append(frame)
    if window:
        yield window


class JavaLogReader:
    """`DumpLogSegments --deep-iteration`, a process for each read."""

    def __init__(self, folder: Path) -> None:
        self._output = folder / "dumped"
        self._empty = folder / f"{0:020d}.log"
        self._empty.touch()

    def started(self) -> int:
        """Read a segment without a batch: the cost of starting a process."""
        return self._dump([self._empty], self._output)

    def to_file(self, sample: ShapeSample) -> int:
        """Write the lines into a file, which `records` counts."""
        self._dump(sample.files, self._output)
        return sample.rows

    def to_null(self, sample: ShapeSample) -> int:
        self._dump(sample.files, Path(os.devnull))
        return sample.rows

    def records(self) -> int:
        """The number of records in the last file that was written."""
        with self._output.open("rb") as lines:
            return sum(line.startswith(_RECORD_LINE) for line in lines)

    def _dump(self, segments: list[Path], output: Path) -> int:
        command = [find_java().command, *_JAVA_OPTIONS, "-cp", jars.class_path(jars.KAFKA), _DUMP]
        command += ["--deep-iteration", "--files", ",".join(map(str, segments))]
        with output.open("wb") as out:
            subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, check=True, timeout=1800)
        return 0
