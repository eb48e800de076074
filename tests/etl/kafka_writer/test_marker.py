"""How a committed run is known again."""

from __future__ import annotations

import pytest

from kseg.client import CommittedOffset, TopicPartition
from kseg.etl.kafka_writer.marker import WrittenRange, found_run, marker_offsets, valid_run_id

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
NOTHING = CommittedOffset(-1)


def test_a_run_is_found_with_what_it_wrote():
    written = {FIRST: WrittenRange(3, 5, 9), SECOND: WrittenRange(1, 0, 0)}
    marks = marker_offsets("t", "run-1", written)
    assert {tp: mark.offset for tp, mark in marks.items()} == {FIRST: 10, SECOND: 1}
    assert found_run("run-1", marks) == written
    assert found_run("run-2", marks) is None


def test_a_run_without_rows_in_the_first_partition_or_at_all_is_found():
    assert found_run("r", marker_offsets("t", "r", {SECOND: WrittenRange(1, 7, 7)})) == {SECOND: WrittenRange(1, 7, 7)}
    assert found_run("r", marker_offsets("t", "r", {})) == {}


def test_marks_of_an_older_run_in_other_partitions_mean_nothing():
    older = marker_offsets("t", "older", {FIRST: WrittenRange(2, 0, 1), SECOND: WrittenRange(2, 0, 1)})
    marks = older | marker_offsets("t", "newer", {FIRST: WrittenRange(2, 3, 4)})
    assert found_run("newer", marks) == {FIRST: WrittenRange(2, 3, 4)}


@pytest.mark.parametrize("mark", [NOTHING, CommittedOffset(5), CommittedOffset(5, -1, "kseg:l:run"),
                                  CommittedOffset(5, -1, "kseg-write:run:x:0:5")])  # fmt: skip
def test_what_is_no_mark_is_no_run(mark: CommittedOffset):
    assert found_run("run", {FIRST: mark}) is None


@pytest.mark.parametrize(
    ("run_id", "valid"), [("2026-01-01_a.b", True), ("", False), ("a:b", False), ("x" * 201, False)]
)
def test_a_run_id_fits_into_a_mark(run_id: str, valid: bool):
    assert valid_run_id(run_id) == valid
