"""Runs pytest; the few tests that failed of a whole suite run once more, alone, and are named if they pass then.

    python tests/harness/second_try.py pytest ARGUMENTS…

KSEG_TEST_SECOND_TRY is how many tests may have failed for that; without it this is pytest and nothing else. Three
processes share two processors with brokers and JVMs: of sixteen thousand tests one or two of a run meet a machine that
stood still for seconds. Such a test is a fault of the test, or a race of the product: it is printed at the end, so that
somebody looks at it. It does not cost all others their result.

What decides on rows has no second try: a sequence that loses a row in one of a thousand runs is what those tests are
for. Neither have tests of the suite's own whole, such as the table of the protocol's APIs.
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
DECIDES_ON_ROWS = ("tests/etl/exactly_once/", "tests/faults/", "tests/etl/ledger/", "tests/etl/tables/")


def may_try_again(failed: Sequence[str], most: int) -> bool:
    """failed: ids of tests, or files that could not be collected."""
    return 0 < len(failed) <= most and all("::" in one and not one.startswith(DECIDES_ON_ROWS) for one in failed)


def main(command: Sequence[str], most: int) -> int:
    """Pytest's exit code, of the second try where there was one."""
    with tempfile.TemporaryDirectory(prefix="kseg-second-try-") as cache:
        own_cache = [*command, "-o", f"cache_dir={cache}"]
        code = subprocess.call(own_cache)
        record = Path(cache, "v", "cache", "lastfailed")
        failed = sorted(json.loads(record.read_text())) if record.exists() else []
        if code != TESTS_FAILED or not may_try_again(failed, most):
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
