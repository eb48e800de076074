"""Entry point for spark-submit that takes any command: `spark-submit jobs/submit.py COMMAND JOB.yaml [options]`.

The session is the submitted one, with the job file's `spark.conf` on top; the job file's `spark.master` is not used.
`kseg package` lays a copy of this file beside what it packs, as `kseg_submit.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path


def run() -> None:
    folder = Path(__file__).resolve().parent
    if sys.path and Path(sys.path[0] or ".").resolve() == folder and (folder / "cli.py").is_file():
        # Python puts a script's own folder first: its `kseg` and `packaging` would hide the installed ones.
        del sys.path[0]
    from kseg.jobs.cli import main

    main(sys.argv[1:])


if __name__ == "__main__":
    run()
