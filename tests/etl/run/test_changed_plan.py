"""What keeps an unfinished run from going on as it was planned."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.config.sections import Segments
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules
from kseg.etl.ledger.state import RunState
from kseg.etl.run.changed_plan import change_since, literal_notes


def job(*files: str, own: str | None = None, **sink: Any) -> Job:
    """files: of `--segments`. own: of the job file."""
    made = job_from_document(
        {
            "version": 1,
            "name": "orders",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": {"topics": ["orders"], **({"segments": own} if own else {})},
            "sink": {"path": "/lake/orders", **sink},
            "ledger": "/lake/ledger",
        }
    )
    return made.of_files(Segments.named(files), brokers=False) if files else made


def run(planned: Job, chain: str = "backfill", rules: DecodingRules = FIRST) -> RunState:
    plan = SimpleNamespace(pinned_config=json.dumps(planned.pinned()), rules=rules)
    return cast("RunState", SimpleNamespace(chain=chain, config_hash=planned.hash_by(rules), plan=plan))


@pytest.mark.parametrize(
    ("planned", "now", "change"),
    [
        (job(), job(), None),
        (job(), job(merge_schema=True), "the job file has changed since"),
        (job("/a", "/b"), job("/b", "/a"), None),
        (job("/a"), job("/b"), "it was planned to read /a, and not /b"),
        (job("/a"), job(), "it was planned to read /a, and not the brokers"),
        (job(), job("/a"), "it was planned to read the brokers, and not /a"),
        (job(own="/a"), job(own="/moved"), None),
        (job(own="/a"), job("/b", own="/a"), "it was planned to read /a, and not /b"),
    ],
)
def test_a_backfill_goes_on_with_the_files_that_it_was_planned_to_read(
    planned: Job, now: Job, change: str | None
) -> None:
    copy = now.source.segments is not None and now.source.segments.paths != ("/moved",)
    assert change_since(now, run(planned), copy=copy) == change


def test_an_incremental_run_goes_on_where_the_job_s_files_have_moved() -> None:
    assert change_since(job(own="/b"), run(job(own="/a"), "incremental"), copy=False) is None


def test_a_run_of_an_earlier_release_goes_on_with_its_literals_and_says_so(tmp_path: Path) -> None:
    """It has YAML's values; the file has not changed."""

    def read(expected: str) -> Job:
        (tmp_path / "job.yaml").write_text(
            "version: 1\nname: orders\nkafka: {bootstrap.servers: 'a:1'}\nsource: {topics: [orders]}\n"
            "sink: {path: ./orders}\nledger: ./ledger\ndecode:\n  value: {format: string}\n"
            f"  expect: {{value: {expected}}}\n"
        )
        return load_job(tmp_path / "job.yaml")

    unchanged = read("[DE, NO]")
    planned = read("[DE, 'false']")  # as that release read it
    assert change_since(unchanged, run(planned, "incremental", FIRST), copy=False) is None
    (note,) = literal_notes(unchanged, run(planned, "incremental", FIRST))
    assert note.startswith("decode.expect.value is [DE, false] in this run")
    assert "[DE, NO] in the file" in note
    assert change_since(unchanged, run(planned, "incremental", NEWEST), copy=False) == "the job file has changed since"
    assert literal_notes(unchanged, run(unchanged, "incremental", NEWEST)) == []
    assert literal_notes(planned, run(planned, "incremental", FIRST)) == []
