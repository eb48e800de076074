"""Attempts of a write's tasks and stages as Spark reports them; test_transactional.py has those of a real Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.errors import RecordTooLarge
from kseg.etl.kafka_writer.attempts import Failed, TaskRepeated, first_error, refuse_repeated_stages, watched
from kseg.etl.tasks.error_transport import ErrorTransport

CAUSE, LATER = RecordTooLarge("cause"), RecordTooLarge("later")
REPEATED = TaskRepeated("repeated")


@pytest.mark.parametrize(("failed", "expected"), [
    ([Failed(3, 0, CAUSE), Failed(3, 1, REPEATED), Failed(3, 2, REPEATED)], CAUSE),
    ([Failed(3, 0, None), Failed(3, 1, REPEATED)], None),  # a lost executor
    ([Failed(3, 0, LATER), Failed(5, 0, CAUSE), Failed(5, 1, REPEATED)], CAUSE),
    ([Failed(3, 0, CAUSE), Failed(5, 0, LATER), Failed(5, 1, REPEATED), Failed(3, 1, REPEATED)], CAUSE),
    ([Failed(3, 1, REPEATED)], None),
    ([], None),
])  # fmt: skip
def test_the_cause_is_the_error_of_the_first_attempt_of_a_task_that_was_refused_later(
    failed: list[Failed], expected: Exception | None
):
    assert first_error(failed) is expected


def test_a_stage_that_ran_again_is_seen_though_the_tracker_hears_of_it_late():
    heard: list[int] = []
    bus = SimpleNamespace(waitUntilEmpty=heard.append)
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: [1],
        getJobInfo=lambda job: SimpleNamespace(stageIds=[7]),
        getStageInfo=lambda stage: SimpleNamespace(currentAttemptId=len(heard)),
    )
    context: Any = SimpleNamespace(
        getLocalProperty=lambda name: None,
        setLocalProperty=lambda name, value: None,
        statusTracker=lambda: tracker,
        _jsc=SimpleNamespace(sc=lambda: SimpleNamespace(listenerBus=lambda: bus)),
    )
    with pytest.raises(TaskRepeated, match="ran stage 7 again"), watched(context, ErrorTransport()):
        pass


@pytest.mark.parametrize(
    ("jobs", "job", "stage"),
    [
        ([1], None, None),
        ([1], SimpleNamespace(stageIds=[7]), None),
        ([], None, None),
    ],
)
def test_a_stage_or_job_that_spark_has_forgotten_counts_as_repeated(jobs: list[int], job: Any, stage: Any):
    """spark.ui.retainedStages and retainedJobs bound what Spark remembers, in sessions that others use too."""
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: jobs, getJobInfo=lambda job_id: job, getStageInfo=lambda stage_id: stage
    )
    with pytest.raises(TaskRepeated, match="no longer knows"):
        refuse_repeated_stages(tracker, "group")
