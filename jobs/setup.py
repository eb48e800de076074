"""The second half of ``make setup``: is there a Java, and are the jars there? ``python -m jobs.setup``."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from jobs.broker import jars
from jobs.broker.errors import BrokerError
from jobs.broker.java import find_java


def fetch_jars(*names: str) -> None:
    """Fetch what is missing of these jar sets, with a bar on standard error while it takes time.

    Raises JavaMissing, JarsUnavailable.
    """
    missing = [name for name in names if not jars.present(name)]
    if not missing:
        return
    columns = (TextColumn("Fetching {task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("jars"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {name: bars.add_task(name, total=len(jars.locked_sets()[name])) for name in missing}
        for name in missing:
            jars.ensure(name, progress=lambda name, done, _: bars.update(tasks[name], completed=done))


def main() -> int:
    try:
        find_java()
        fetch_jars(jars.KAFKA, jars.DELTA)
    except BrokerError as error:
        print(f"{error} {error.remedy or ''}".strip(), file=sys.stderr)
        return int(error.exit_code)
    return 0


if __name__ == "__main__":
    sys.exit(main())
