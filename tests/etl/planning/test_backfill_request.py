"""What a backfill asks for: every form read, every fault told at once, one identity for one question."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.planning.backfill_request import BackfillRequest, Interval, PartitionOffset


def faults_of(**words: object) -> list[tuple[str, str]]:
    with pytest.raises(ConfigurationError) as caught:
        BackfillRequest.parse(**words)  # type: ignore[arg-type]
    assert all(fault.remedy for fault in caught.value.faults)
    return [(fault.path, fault.message) for fault in caught.value.faults]


def test_offsets_name_topics_with_dots() -> None:
    request = BackfillRequest.parse(["a.b-c:1:7", "a.b-c:0:5"], ["a.b-c:0:9", "a.b-c:1:8"])
    assert request.from_ == (PartitionOffset("a.b-c", 0, 5), PartitionOffset("a.b-c", 1, 7))
    assert request.partitions == {("a.b-c", 0), ("a.b-c", 1)}


def test_times_are_read_into_utc() -> None:
    request = BackfillRequest.parse(["2026-01-01T01:00:00+01:00"], ["2026-01-02T00:00:00Z"])
    assert request.from_ == datetime(2026, 1, 1, tzinfo=UTC)
    assert request.partitions is None


def test_an_interval_has_a_start_and_an_end() -> None:
    request = BackfillRequest.parse(interval="2026-01-01T00:00:00Z/2026-01-02T00:00:00+00:00")
    assert request.interval == Interval(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC))


def test_offsets_on_one_side_and_a_time_on_the_other() -> None:
    request = BackfillRequest.parse(["orders:0:5"], ["2026-01-02T00:00:00Z"])
    assert request.partitions == {("orders", 0)}


@pytest.mark.parametrize("word", ["2026-01-01T10:00:00", "2026-01-01T10:10:55"])
def test_a_time_without_a_zone_is_a_fault_even_where_it_reads_as_an_offset(word: str) -> None:
    assert faults_of(from_=[word], to=["2026-01-02T00:00:00Z"]) == [("--from", f"{word!r} has no time zone")]


def test_a_topic_named_like_a_date_is_a_topic() -> None:
    request = BackfillRequest.parse(["20260101:10:55", "2026-01-01:0:5"], ["20260101:10:56", "2026-01-01:0:6"])
    assert request.partitions == {("20260101", 10), ("2026-01-01", 0)}


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        ({}, "--from", "no offsets are given"),
        ({"from_": ["o:0:1"]}, "--to", "is missing"),
        ({"to": ["o:0:1"]}, "--from", "is missing"),
        ({"from_": ["o:0"], "to": ["o:0:1"]}, "--from", "neither an offset nor a time"),
        ({"from_": ["o:0:-1"], "to": ["o:0:1"]}, "--from", "neither"),
        ({"from_": ["o:0:5"], "to": ["o:0:5"]}, "--to", "ends at 5 and starts at 5"),
        ({"from_": ["o:0:5", "o:1:5"], "to": ["o:0:9"]}, "--to", "does not name o:1"),
        ({"from_": ["o:0:5"], "to": ["o:0:9", "o:1:5"]}, "--from", "does not name o:1"),
        ({"from_": ["o:0:5", "o:0:6"], "to": ["o:0:9"]}, "--from", "named twice"),
        ({"from_": ["o:9999999999:5"], "to": ["o:0:9"]}, "--from", "is out of range"),
        ({"from_": ["2026-01-01T00:00:00Z", "o:0:1"], "to": ["o:0:9"]}, "--from", "both a time and offsets"),
        ({"from_": ["2026-01-01T00:00:00Z"] * 2, "to": ["o:0:9"]}, "--from", "more than one time"),
        ({"from_": ["2026-01-02T00:00:00Z"], "to": ["2026-01-01T00:00:00Z"]}, "--to", "not after"),
        ({"interval": "2026-01-01T00:00:00Z"}, "--interval", "not START/END"),
        ({"interval": "2026-01-01T00:00:00/2026-01-02T00:00:00Z"}, "--interval", "no time zone"),
        ({"interval": "2026-01-02T00:00:00Z/2026-01-01T00:00:00Z"}, "--interval", "does not end after"),
        ({"interval": "2026-01-01T00:00:00Z/2026-01-02T00:00:00Z", "from_": ["o:0:1"]}, "--interval", "combined with"),
        ({"from_": ["o:0:1"], "to": ["o:0:2"], "mode": "append"}, "--label", "is missing"),
        ({"from_": ["o:0:1"], "to": ["o:0:2"], "label": " "}, "--label", "empty"),
        ({"from_": ["o:0:1"], "to": ["o:0:2"], "mode": "overwrite"}, "--mode", "not a mode"),
    ],
)
def test_each_fault_has_its_option(words: dict[str, object], path: str, message: str) -> None:
    found = faults_of(**words)
    assert [p for p, _ in found] == [path]
    assert message in found[0][1]


def test_all_faults_are_told_at_once() -> None:
    found = faults_of(from_=["x", "2026-01-01T00:00:00"], to=["y"], mode="odd", label="")
    assert [path for path, _ in found] == ["--from", "--from", "--to", "--mode", "--label"]


def test_a_naive_time_is_refused_from_code_too() -> None:
    with pytest.raises(ConfigurationError, match="no time zone"):
        BackfillRequest(from_=datetime(2026, 1, 1), to=datetime(2026, 1, 2, tzinfo=UTC))


def test_the_same_question_has_one_run_id_whatever_its_spelling() -> None:
    one = BackfillRequest.parse(["o:1:1", "o:0:1"], ["2026-01-01T01:00:00+01:00"])
    two = BackfillRequest.parse(["o:0:1", "o:1:1"], ["2026-01-01T00:00:00Z"], commit_offsets=True)
    assert one.digest("orders") == two.digest("orders")
    assert one.digest("orders") != one.digest("other")
    different = [
        BackfillRequest.parse(["o:0:1"], ["2026-01-01T00:00:00Z"]),
        BackfillRequest.parse(["o:0:1", "o:1:1"], ["2026-01-01T00:00:00Z"], mode="replace"),
        BackfillRequest.parse(["o:0:1", "o:1:1"], ["2026-01-01T00:00:00Z"], label="again"),
    ]
    assert len({one.digest("orders"), *(r.digest("orders") for r in different)}) == 4


@pytest.mark.parametrize(
    "request_",
    [
        BackfillRequest.parse(["o:0:1"], ["2026-01-01T00:00:00.5Z"], label="x", mode="append"),
        BackfillRequest.parse(interval="2026-01-01T00:00:00Z/2026-01-02T00:00:00Z", commit_offsets=True),
        BackfillRequest.parse(segments=["/data/a", "s3://b/x"]),
    ],
)
def test_json_and_pickle_keep_a_request(request_: BackfillRequest) -> None:
    assert BackfillRequest.from_json(request_.to_json()) == request_
    assert pickle.loads(pickle.dumps(request_)) == request_


def test_all_that_files_hold_needs_no_bounds() -> None:
    asked = BackfillRequest.parse(segments=["/data/a/", "/data/a", "b"])
    assert asked.unbounded
    assert asked.segments == ("/data/a", str(Path.cwd() / "b"))
    assert asked.partitions is None


def test_where_records_are_read_from_is_no_part_of_what_is_asked() -> None:
    bounds = {"from_": ["o:0:1"], "to": ["o:0:9"]}
    assert BackfillRequest.parse(**bounds).digest("x") == BackfillRequest.parse(**bounds, segments=["/d"]).digest("x")


@pytest.mark.parametrize(
    ("words", "path", "message"),
    [
        ({"segments": ["/d"], "mode": "replace"}, "--mode", "needs --from and --to"),
        ({"segments": ["/d"], "from_": ["o:0:1"]}, "--to", "is missing"),
        ({"segments": ["/d"], "interval": "2026-01-01T00:00:00Z/2026-01-02T00:00:00Z"}, "--interval", "--segments"),
        ({"segments": ["~/d"]}, "--segments", "only a shell"),
        ({}, "--from", "no offsets are given"),
    ],
)
def test_what_does_not_go_with_files_is_told(words: dict[str, Any], path: str, message: str) -> None:
    ((told, text),) = faults_of(**words)
    assert told == path
    assert message in text
