"""Peak memory of reading a range, by the range's size: it must depend on the fetch size, not on the range.

Each size is read in a separate process, from the broker, as in a Spark worker.

    python -m kseg.jobs.bench.memory SERVERS TOPIC ROWS        one such process
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kseg.jobs.bench.workload import BenchTopic, client_config

MIB = 1 << 20


def measure(topic: BenchTopic, *, times: int) -> list[dict[str, Any]]:
    """Peaks for an empty range, a tenth of a partition, and a whole partition: the lowest of `times` processes each."""
    whole = topic.rows // topic.partitions
    return [
        min((_in_a_process(topic, rows) for _ in range(times)), key=lambda found: float(found["peak_mib"]))
        for rows in (0, whole // 10, whole)
    ]


def _in_a_process(topic: BenchTopic, rows: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "kseg.jobs.bench.memory", topic.servers, topic.name, str(rows)]
    completed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
    result: dict[str, Any] = json.loads(completed.stdout)
    if result["rows"] != rows:
        raise AssertionError(f"read {result['rows']} rows of {rows}")
    return result


def main(servers: str, topic: str, rows: int) -> dict[str, Any]:
    """Read the first rows of partition 0 and report this process's peak."""
    from kseg.etl.source.decode_options import DecodeOptions
    from kseg.etl.source.reader import RangeReader
    from kseg.etl.source.tasks import RangeTask

    reader = RangeReader(RangeTask(topic, 0, 0, rows), client_config(servers), DecodeOptions())
    found = arrow_bytes = 0
    for batch in reader:
        found += batch.num_rows
        arrow_bytes += batch.nbytes
    return {"rows": found, "arrow_mib": round(arrow_bytes / MIB, 1), "peak_mib": round(peak() / MIB, 1)}


def peak() -> int:
    """The peak resident memory of this process, in bytes.

    On Linux a process inherits its parent's `ru_maxrss`; the value in /proc starts with the program.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
