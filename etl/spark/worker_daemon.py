"""The process from which Spark forks its Python workers, made to start fast: `spark.python.daemon.module`.

Where Spark and its workers share an installation, two things are done before the first fork:

- pyspark is imported from where it is installed. Spark names a zip file of the same source first, which would be
  compiled again by every daemon: 0.8 s.
- What every task of ours needs is loaded, compiled decoder included, and kept away from the garbage collector: a worker
  is ready in some milliseconds then instead of a second, and workers share the memory. Nothing of it starts a thread;
  pyspark imports late for fear of those.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def prefer_installed(path: list[str]) -> None:
    """Drop the archives inside of pyspark's own folder from a search path on which that folder itself is found."""
    searched = {os.path.realpath(entry) for entry in path if entry}  # Spark names its home without links
    for entry in [e for e in path if e.endswith("pyspark.zip")]:
        package = Path(entry).parents[2]
        site = package.parent
        if os.path.realpath(site) in searched and (package / "__init__.py").is_file() and (site / "py4j").is_dir():
            path[:] = [e for e in path if not e.startswith(f"{package}{os.sep}")]


def main() -> None:
    prefer_installed(sys.path)
    from pyspark import worker  # noqa: F401
    from pyspark.daemon import manager

    with contextlib.suppress(Exception):  # a task gets the same error, and can report it
        import pyarrow as pa

        import kseg.etl.spark.task_entry  # noqa: F401
        from kseg.etl.tasks.preload import preload

        pa.array([0])  # imports pandas, as Spark's own conversions would do in every worker
        preload()
    manager()


if __name__ == "__main__":
    main()
