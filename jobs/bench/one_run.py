"""One plan or ingest of a job file in a separate process; prints time, memory and requests as JSON.

python -m kseg.jobs.bench.one_run JOB.yaml [--plan]
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from kseg.client.wire.trace import TRAFFIC
from kseg.etl.config.load import load_job
from kseg.etl.run.dry_run import plan_only
from kseg.etl.run.pipeline import run_ingest
from kseg.jobs.bench.memory import MIB, peak


def one_run(path: str, *, dry_run: bool) -> dict[str, Any]:
    """Run it. Returns: seconds, phases: of the whole run, and of its phases. driver_mib: the driver's peak resident
    memory, without the JVM's. requests: number of the driver's own requests, by API.
    """
    began = time.perf_counter()
    report = plan_only(load_job(path)) if dry_run else run_ingest(load_job(path))
    seconds = time.perf_counter() - began
    requests: dict[str, int] = {}
    for (_, api, _), tally in sorted(TRAFFIC.snapshot().items()):
        requests[api] = requests.get(api, 0) + tally.requests
    return {
        "status": report.status,
        "seconds": round(seconds, 2),
        "phases": report.seconds,
        "rows": sum(table.rows for table in report.tables),
        "driver_mib": round(peak() / MIB),
        "requests": requests,
    }


if __name__ == "__main__":
    print(json.dumps(one_run(sys.argv[1], dry_run="--plan" in sys.argv[2:])))
