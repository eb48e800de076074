"""Runs pytest; a few failed tests of a whole suite run once more, alone, and are named if they pass then.

    python tests/harness/second_try.py pytest ARGUMENTS…

KSEG_TEST_SECOND_TRY is how many tests may have failed for that; without it this is pytest and nothing else. Three
processes share two processors with brokers and JVMs: of sixteen thousand tests one or two of a run meet a machine that
stood still for seconds. Such a test is wrong, or the product has a race: it is printed at the end, to be corrected. It
does not cost all others their result.

Only tests that wait for other processes, by the clock, have a second try. All that decides on rows has none: a sequence
that loses a row in one of a thousand runs is what those tests are for. Neither has what the suite says as a whole, such
as the table of the protocol's APIs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

TESTS_FAILED = 1
"""Pytest's exit code where it ran to its end: others are of runs that were interrupted, or could not begin."""
WAIT_FOR_PROCESSES = (
    "tests/airflow/",
    "tests/client/cluster/",
    "tests/client/live/",
    "tests/client/membership/",
    "tests/client/security/",
    "tests/client/wire/",
    "tests/harness/",
    "tests/jobs/",
)
WHOLE_FAILED = "kseg/whole_failed"
"""The key in pytest's cache of what the suite lacks as a whole."""


def may_try_again(failed: Sequence[str], most: int) -> bool:
    """Whether these have a second try. failed: ids of tests, or files that could not be collected."""
    return 0 < len(failed) <= most and all("::" in one and one.startswith(WAIT_FOR_PROCESSES) for one in failed)


def main(command: Sequence[str], most: int) -> int:
    """Pytest's exit code, of the second try where there was one."""
    with tempfile.TemporaryDirectory(prefix="kseg-second-try-") as cache:
        own_cache = [*command, "-o", f"cache_dir={cache}"]
        code = subprocess.call(own_cache)
        values = Path(cache, "v")
        record = values / "cache" / "lastfailed"
        failed = sorted(json.loads(record.read_text())) if record.exists() else []
        whole_failed = (values / WHOLE_FAILED).exists()
        if code != TESTS_FAILED or whole_failed or not may_try_again(failed, most):
            return code
        print(f"\nA second try of what failed: {', '.join(failed)}", flush=True)
        again = subprocess.call([*own_cache, "--numprocesses", "0", "--last-failed", "--last-failed-no-failures=none"])
        if again == 0:
            print("\n".join(f"FLAKY {one}: failed, and passed at the second try" for one in failed), flush=True)
        return again


if __name__ == "__main__":
    asked = int(os.environ.get("KSEG_TEST_SECOND_TRY") or 0)
    if not asked:
        os.execvp(sys.argv[1], sys.argv[1:])
    signal.signal(signal.SIGINT, lambda *_: None)  # pytest has it, too, and ends with what failed until then
    sys.exit(main(sys.argv[1:], asked))
