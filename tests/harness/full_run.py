"""`make test-full`: all tests with full counts, part by part; what has passed on this commit is not run again.

    python tests/harness/full_run.py [PART …] [--again]

It takes hours, and may be stopped after any part: `.test-full.json` (not in git) has the commit and the parts that have
passed on it. When all have, tests/FULL_RUN.md says so, and is there to be committed. With changes that are not
committed a part runs, and is not recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / ".test-full.json"
PAGE = ROOT / "tests" / "FULL_RUN.md"
KERBEROS = "tests/client/security/test_kerberos.py"


@dataclass(frozen=True)
class Part:
    """tests: files and folders. left_out: those of them that other parts have. make: words for make."""

    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    make: tuple[str, ...] = ("test-main",)

    def command(self, more: str = "") -> list[str]:
        words = [*self.tests, *(f"--ignore={path}" for path in self.left_out), more]
        name = "AIRFLOW_ARGS" if "test-airflow" in self.make else "ARGS"
        own_root = name == "AIRFLOW_ARGS"  # its target names the folder already
        return ["make", "--no-print-directory", *self.make, f"{name}={more if own_root else ' '.join(words).strip()}"]


_FOLDERS = ("tests/segment_reader", "tests/client", "tests/etl", "tests/jobs", "tests/airflow")

PARTS = {
    "segment_reader": Part(("tests/segment_reader",)),
    "client": Part(("tests/client",), left_out=(KERBEROS,)),
    "kerberos": Part((KERBEROS,), make=("test-main", "GSSAPI=1", "WORKERS=0")),
    "etl": Part(("tests/etl",), left_out=("tests/etl/exactly_once",)),
    "exactly_once": Part(("tests/etl/exactly_once",)),
    "jobs": Part(("tests/jobs",)),
    "rest": Part(("tests",), left_out=_FOLDERS),
    "airflow": Part(("tests/airflow",), make=("test-airflow",)),
    "airflow-2.11": Part(("tests/airflow",), make=("test-airflow", "AIRFLOW=2.11")),
}


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def passed_on(commit: str, record: Path = RECORD) -> dict[str, Any]:
    """The parts that have passed on a commit, each with what pytest counted, when, and how long it took."""
    if not record.exists():
        return {}
    told = json.loads(record.read_text())
    return dict(told["passed"]) if told["commit"] == commit else {}


def page(commit: str, passed: dict[str, Any]) -> str:
    """What the repository keeps of a full run."""
    lines = [
        "# The last full run",
        "",
        f"All parts of `make test-full` have passed on commit {commit}.",
        "",
        "| part | passed | skipped | minutes | on |",
        "| --- | --: | --: | --: | --- |",
    ]
    for name in PARTS:
        told = passed[name]
        minutes = told["seconds"] / 60
        lines.append(f"| {name} | {told['passed']} | {told['skipped']} | {minutes:.0f} | {told['at'][:10]} |")
    return "\n".join([*lines, ""])


def run(name: str) -> dict[str, Any] | None:
    """Run a part; returns what to record of it, or None if it failed."""
    print(f"--- {name} ---", flush=True)
    began = time.monotonic()
    environment = os.environ | {
        "KSEG_TEST_SCALE": "full",
        "PYTEST_TIMEOUT": "1800",
        "CI": "true",
        "KSEG_TEST_PART": name,
    }
    with tempfile.TemporaryDirectory() as folder:
        counted = Path(folder) / "counted.xml"
        done = subprocess.run(PARTS[name].command(f"--junit-xml={counted}"), cwd=ROOT, env=environment, check=False)
        if done.returncode:
            return None
        [suite] = ElementTree.parse(counted).getroot().iter("testsuite")
    count = {key: int(suite.get(key, 0)) for key in ("tests", "skipped")}
    if count["tests"] == count["skipped"]:
        print("nothing of it was run", file=sys.stderr)
        return None
    return {
        "passed": count["tests"] - count["skipped"],
        "skipped": count["skipped"],
        "seconds": round(time.monotonic() - began),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Run all tests with full counts, part by part.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"one of {', '.join(PARTS)} [default: all]")
    parser.add_argument("--again", action="store_true", help="run what has passed on this commit, too")
    asked = parser.parse_args()
    if unknown := [name for name in asked.parts if name not in PARTS]:
        parser.error(f"no part is called {', '.join(unknown)}: there are {', '.join(PARTS)}")
    commit = _git("rev-parse", "HEAD")
    failed = []
    for name in asked.parts or PARTS:
        passed = passed_on(commit)
        if name in passed and not asked.again:
            print(f"{name}: has passed on {commit[:12]}", flush=True)
            continue
        told = run(name)
        if told is None:
            failed.append(name)
        elif _git("rev-parse", "HEAD") != commit or _git("status", "--porcelain"):
            print(f"{name}: passed; not recorded, since there are changes that are not committed", flush=True)
        else:
            RECORD.write_text(
                json.dumps({"commit": commit, "passed": passed_on(commit) | {name: told}}, indent=1) + "\n"
            )
    passed = passed_on(commit)
    if passed.keys() >= PARTS.keys():
        PAGE.write_text(page(commit, passed))
        print(f"All parts have passed on {commit}: commit {PAGE.relative_to(ROOT)}.")
    elif failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    else:
        print(f"left on {commit[:12]}: {', '.join(name for name in PARTS if name not in passed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
