"""The command that a refusal names is whole, and leads out at once: the fault suite runs what it reads there."""

from __future__ import annotations

import re
import shutil
from typing import Any

import pytest

from kseg.etl.errors import Refused

COMMAND = re.compile(r"`kseg ([^`]+)`")


def refusal(step: Any, *arguments: Any, **options: Any) -> tuple[str, list[str]]:
    """The code of what a step refuses with, and the commands that its remedy names."""
    with pytest.raises(Refused) as caught:
        step(*arguments, **options)
    return caught.value.code, COMMAND.findall(caught.value.remedy or "")


def test_a_table_that_is_gone_is_accepted_by_the_first_command(topic, home):
    """It said `--accept-table TABLE` alone, which was refused in its turn: there is nothing to compare."""
    job = home(topic)
    job.ingest()
    shutil.rmtree(job.folder / "lake" / "first")
    code, commands = refusal(job.ingest)
    assert code == "table-missing"
    assert commands[0] == f"repair JOB --accept-table {job.folder / 'lake' / 'first'} --no-verify"
    assert refusal(job.accept_table, "first")[1][0] == "repair JOB --accept-table TABLE --no-verify"
    job.accept_table("first", verify_rows=False)
    assert job.ingest().status == "nothing-to-do"


def test_reserved_offsets_name_the_run_that_has_them(topic, home, records):
    """`kseg ingest` finishes no backfill, and `kseg repair --abandon` wants a job and a run."""
    job = home(topic)
    job.die("plan:after", from_=[f"{topic}:0:0"], to=[f"{topic}:0:5"])
    (run,) = job.state.unfinished_runs()
    code, commands = refusal(job.backfill, from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"])
    assert (code, commands) == ("offsets-reserved", [f"repair JOB --finish {run.run_id}"])
    job.finish(run.run_id)
    assert job.backfill(from_=[f"{topic}:0:0"], to=[f"{topic}:0:7"]).status == "done"


def test_moved_group_offsets_name_the_command_that_accepts_them(topic, home, records):
    job = home(topic)
    job.ingest()
    records.set_group_offsets(job.group, {(topic, 0): 3})
    code, commands = refusal(job.ingest)
    assert (code, commands) == ("group-offsets-differ", ["ingest JOB --accept-group-offsets"])
    job.ingest(accept_group_offsets=True)
    job.assert_complete(runs=1)
