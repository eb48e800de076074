"""How a committed run is known again."""

from __future__ import annotations

from uuid import UUID

import pytest

from kseg.client import CommittedOffset
from kseg.etl.kafka_writer.marker import KEPT, marker_of, runs_in, valid_run_id

TOPIC, ANOTHER = UUID(int=7), UUID(int=8)
LIMIT = 4096
"""The brokers' default of `offset.metadata.max.bytes`."""


def test_a_marker_has_its_runs_with_their_rows_newest_first():
    runs = {"run-2": 5, "2026-01-01_a.b": 0, "x": 10**18}
    found = runs_in(marker_of(runs, TOPIC), TOPIC)
    assert list(found.items()) == list(runs.items())


def test_a_marker_without_runs_is_none():
    assert runs_in(marker_of({}, TOPIC), TOPIC) == {}


def test_the_newest_runs_are_kept_and_fit_however_long_their_ids_are():
    runs = {f"{number:0200}": 2**63 - 1 for number in range(KEPT + 3)}
    marker = marker_of(runs, TOPIC)
    assert len(marker.metadata) < LIMIT
    assert list(runs_in(marker, TOPIC)) == list(runs)[:KEPT]


def test_a_topic_made_anew_has_no_runs():
    marker = marker_of({"run": 5}, TOPIC)
    assert runs_in(marker, ANOTHER) == {}
    assert runs_in(marker, None) == {"run": 5}  # the brokers know no topic ids
    assert runs_in(marker_of({"run": 5}, None), TOPIC) == {"run": 5}


def test_the_mark_of_a_release_before_is_its_last_run():
    assert runs_in(CommittedOffset(10, -1, "kseg-write:run-1:3:5:40"), TOPIC) == {"run-1": 40}
    assert runs_in(CommittedOffset(0, -1, "kseg-write:run-1:0:-1:40"), TOPIC) == {"run-1": 40}


@pytest.mark.parametrize(
    "metadata",
    [
        "",
        "kseg:l:run",
        "kseg-write:run:x:0:5",
        "kseg-write/2",
        "kseg-write/2 - run",
        "kseg-write/2 - run=x",
        "kseg-write/3 - run=1",
    ],
)
def test_what_is_no_marker_has_no_runs(metadata: str):
    assert runs_in(CommittedOffset(5, -1, metadata), TOPIC) == {}


def test_nothing_committed_is_no_marker():
    assert runs_in(CommittedOffset(-1), TOPIC) == {}


@pytest.mark.parametrize(
    ("run_id", "valid"), [("2026-01-01_a.b", True), ("", False), ("a:b", False), ("a b", False), ("x" * 201, False)]
)
def test_a_run_id_fits_into_a_marker(run_id: str, valid: bool):
    assert valid_run_id(run_id) == valid
