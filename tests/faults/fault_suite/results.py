"""What runs of the suite came to, one JSON document a line, and the tables of docs/explanation/faults.md made of them.

`make faults` appends its runs, those that fail too. `python tests/faults/fault_suite/results.py` writes the page's
tables anew; a test compares them.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

FAULTS = Path(__file__).resolve().parents[1]
FILE = FAULTS / "results.jsonl"
PAGE = FAULTS.parents[1] / "docs" / "explanation" / "faults.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"

Outcomes = dict[str, dict[str, int]]
"""How often each outcome of each action or fault came, by its kind."""


@dataclass(frozen=True)
class Result:
    """One run. commit: what was tested, with `-dirty` where files were changed. passed: nothing was found, and all
    ended.

    counts: of `Findings`, by name. found: the examples of what was found, or the error.
    """

    profile: str
    seed: int
    minutes: float
    commit: str
    passed: bool
    counts: dict[str, int]
    outcomes: Outcomes
    found: list[str]


def commit(folder: Path = FAULTS) -> str:
    """The commit of the checkout; runs that were recorded since do not make it another one."""

    def git(*arguments: str) -> str:
        command = ["git", *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()

    of_runs = [f":(top,exclude){one.relative_to(FAULTS.parents[1])}" for one in (FILE, PAGE)]
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ":(top)", *of_runs)
    return git("rev-parse", "--short=10", "HEAD") + ("-dirty" if changed else "")


def append(result: Result, file: Path = FILE) -> None:
    with file.open("a", encoding="utf-8") as lines:
        lines.write(json.dumps(asdict(result), sort_keys=True) + "\n")


def read(file: Path = FILE) -> list[Result]:
    return [Result(**json.loads(line)) for line in file.read_text(encoding="utf-8").splitlines()]


def grouped(outcomes: Iterable[tuple[tuple[str, str], int]]) -> Outcomes:
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for (kind, outcome), count in sorted(outcomes):
        found[kind][outcome] = count
    return dict(found)


def markdown(results: list[Result]) -> str:
    """The runs in a table, and for each profile what its passed runs did and what came of it."""
    lines = [
        "| profile | seed | minutes | commit | rows checked | faults | moments | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one in results:
        counts = one.counts
        numbers = f"{counts['rows']:,} | {counts['faults']:,} | {counts['moments']:,}"
        lines.append(f"| {one.profile} | {one.seed} | {one.minutes:g} | `{one.commit}` | {numbers} | {_verdict(one)} |")
    for profile in sorted({one.profile for one in results if one.passed}):
        passed = [one for one in results if one.passed and one.profile == profile]
        seeds = ", ".join(str(one.seed) for one in passed)
        lines += ["", f"### Outcomes: {profile}", "", f"Of the passed runs (seeds {seeds}), added up.", ""]
        lines += ["| command or fault | outcomes |", "| --- | --- |"]
        lines += [f"| {kind} | {_listed(counts)} |" for kind, counts in sorted(_added(passed).items())]
    return "\n".join(lines)


def _verdict(result: Result) -> str:
    if result.passed:
        return "passed"
    wrong = [f"{name} {count}" for name, count in result.counts.items() if count and name in _WRONG]
    return "failed: " + (", ".join(wrong) or "did not end")


_WRONG = ("gaps", "duplicates", "mismatches", "ahead", "lost", "unexpected")


def _added(results: Iterable[Result]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        for kind, counts in one.outcomes.items():
            found[kind].update(counts)
    return found


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{outcome} {count}" for outcome, count in sorted(counts.items()))


def page(text: str, results: list[Result]) -> str:
    """A page's text with the tables of these results in place of those that it has."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown(results)}\n\n{END}{after}"


def result_of(profile: str, world: Any, minutes: float, tested: str, error: BaseException | None) -> Result:
    """world: a `World` that has ended, or that an error has ended. tested: the commit when it began."""
    counts = {name: value for name, value in asdict(world.findings).items() if name != "examples"}
    found = [one[:1000] for one in world.findings.examples[:20]]
    if error is not None:
        found.append(repr(error)[:1000])
    passed = error is None and world.findings.sound
    return Result(profile, world.seed, minutes, tested, passed, counts, grouped(world.outcomes.items()), found)


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), read()), encoding="utf-8")
