"""Exit codes of `kseg`, and which of them Airflow retries. Made by `python -m kseg.jobs.website.exit_codes`."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1
BAD_CONFIGURATION: Final = 2
REFUSED: Final = 3
RETRIABLE: Final = 4
ANOTHER_RUN_ACTIVE: Final = 5

#: The same command may succeed later: the task is retried as its DAG says.
RETRIED: Final = frozenset({RETRIABLE, ANOTHER_RUN_ACTIVE})
