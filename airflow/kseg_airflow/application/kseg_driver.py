"""The application of spark-submit and Livy: `kseg_driver.py ingest orders.yaml …` is `kseg ingest orders.yaml …`.

`--driver NAME` before that is what identifies this driver in the ledger where neither host nor process id is known:
behind Livy, which tells no exit code either, so the last line of the output does (`kseg-exit: 3`).

Its Python has kafka-segment-etl, installed or by --py-files or --archives. It lies in a folder of its own, since Python
puts a script's folder first on its path.

In client mode it is the child of spark-submit's JVM. A signal that stops the parent (Livy's, for a batch that is
deleted) does not reach the child, which would go on until its next request to Spark: so it ends when its parent has
ended.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time


def run() -> None:
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # a JVM has started this
        threading.Thread(target=end_with, args=(os.getppid(),), name="kseg-parent", daemon=True).start()
    words = sys.argv[1:]
    if words[:1] != ["--driver"]:
        kseg(words)
        return
    os.environ["KSEG_DRIVER"] = words[1]
    try:
        kseg(words[2:])
    except SystemExit as end:
        print(f"kseg-exit: {end.code if isinstance(end.code, int) else int(end.code is not None)}", flush=True)
        raise


def kseg(words: list[str]) -> None:
    from kseg.jobs.cli import main  # type: ignore[import-not-found]  # the driver's Python has it

    main(words)


def end_with(parent: int) -> None:
    """Have this process unwind, as by a scheduler's SIGTERM, when another is its parent."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    run()
