"""Entry point for spark-submit: `spark-submit jobs/ingest.py JOB.yaml [options of kseg ingest]`.

The session is the submitted one, with the job file's `spark.conf` on top; the job file's `spark.master` is not used.
"""

from __future__ import annotations

import sys
from pathlib import Path


def run() -> None:
    if sys.path and Path(sys.path[0] or ".").resolve() == Path(__file__).resolve().parent:
        # Python puts a script's own folder first: its `kseg` and `packaging` would hide the installed ones.
        del sys.path[0]
    from kseg.jobs.cli import main

    main([Path(__file__).stem, *sys.argv[1:]])


if __name__ == "__main__":
    run()
