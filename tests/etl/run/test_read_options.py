"""What a job's ranges are read with follows from the job file, and from a run's plan where one is read for."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.config.load import job_from_document
from kseg.etl.errors import ConfigurationError
from kseg.etl.run.read_options import read_options, read_tasks
from kseg.etl.source.decode_options import DecodeOptions
from kseg.etl.source.record_chunk import FetchOptions
from kseg.segment_reader.decode.engine import Limits

JOB: dict[str, Any] = {
    "version": 1,
    "name": "orders",
    "kafka": {"bootstrap.servers": "localhost:9092"},
    "source": {"topics": ["orders"]},
    "sink": {"path": "/lake/orders"},
    "ledger": "/lake/ledger",
}


def options(source: Mapping[str, Any] = {}, plan: Any = None, **sections: Any) -> DecodeOptions:
    document = {**JOB, **sections, "source": {**JOB["source"], **source}}
    return read_options(job_from_document(document), plan)


def test_a_plain_job_reads_with_headers_and_what_is_committed() -> None:
    assert options() == DecodeOptions()
    assert options().fetch == FetchOptions()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"isolation_level": "read_uncommitted"}, {"isolation_level": "read_uncommitted"}),
        ({"on_data_loss": "record"}, {"on_data_loss": "record"}),
    ],
)
def test_fetching_is_told_the_same(source: dict[str, Any], expected: dict[str, Any]) -> None:
    assert options(source) == DecodeOptions(**expected)
    assert options(source).fetch == FetchOptions(**expected)


def test_damage_is_passed_over_where_there_is_a_quarantine() -> None:
    sink = {**JOB["sink"], "quarantine": {"path": "/lake/damaged"}}
    found = options({"on_corruption": "quarantine"}, sink=sink)
    assert found.on_corruption == found.fetch.on_corruption == "quarantine"


def test_rows_that_a_transform_gets_carry_their_address_twice() -> None:
    assert options(transform=[{"sql": "SELECT * FROM __rows__"}]) == DecodeOptions(addresses=True)


def test_late_marks_are_as_the_plan_says_whatever_the_job_file_says_by_now() -> None:
    marked = SimpleNamespace(mode="interval", replaces=False, marks_late=True, late_before_ms=5)
    assert options(plan=marked) == DecodeOptions(marks_late=True, late_before=5)
    unmarked = SimpleNamespace(mode="interval", replaces=False, marks_late=False, late_before_ms=None)
    assert options(plan=unmarked, interval={"max_wait": "2h"}) == DecodeOptions()


def test_ranges_are_cut_by_the_jobs_limit_with_the_topics_that_were_planned() -> None:
    asked: dict[str, Any] = {}

    class Logs:
        def tasks(self, ranges: Any, **given: Any) -> tuple[()]:
            asked.update(given, ranges=ranges)
            return ()

    job = job_from_document({**JOB, "source": {"topics": ["orders"], "max_records_per_task": 7}})
    topics: Any = {"orders": SimpleNamespace(topic_id=None)}
    assert read_tasks(job, Logs(), [], topics, min_tasks=3) == ()  # type: ignore[arg-type]
    assert asked == {"ranges": [], "max_records": 7, "min_tasks": 3, "topics": {"orders": None}}


def test_the_limit_of_a_batch_is_the_jobs() -> None:
    assert options({"max_batch_bytes": 64 << 20}) == DecodeOptions(limits=Limits(max_batch_bytes=64 << 20))


@pytest.mark.parametrize("size", [0, 1000, 1 << 31, "64MB"])
def test_a_limit_of_batches_that_is_none_is_refused(size: object) -> None:
    with pytest.raises(ConfigurationError, match=r"source\.max_batch_bytes"):
        options({"max_batch_bytes": size})


VALUE = {"format": "json", "schema": {"columns": {"id": "bigint"}}}
REGISTRY = {"registry": {"url": "http://localhost:8081"}}
BY_REGISTRY = {"format": "avro", "schema": "registry"}
ROUTES = {"sink": {"route_by": "header.kind", "routes": {"a": {"path": "/lake/a"}}}}
LETTERS = {"on_error": "dead_letter"}


@pytest.mark.parametrize(
    ("sections", "replaced", "refused"),
    [
        # (headers, rawHeaders, header_names) of the decoder
        ({}, (True, False, "replace"), (True, False, "refuse")),
        ({"transform": [{"sql": "SELECT * FROM __rows__"}]}, (True, False, "replace"), (True, False, "refuse")),
        ({"decode": {"value": VALUE}}, (False, False, "replace"), (False, False, "replace")),
        ({"decode": {"value": VALUE, **LETTERS}}, (True, True, "replace"), (True, True, "replace")),
        ({"decode": {"value": VALUE, "keep": ["headers"]}}, (True, False, "replace"), (True, True, "replace")),
        ({"decode": {"orders": {"value": VALUE}}}, (False, False, "replace"), (False, False, "replace")),
        ({"decode": {"value": BY_REGISTRY}, **REGISTRY}, (True, False, "replace"), (True, True, "replace")),
        (ROUTES, (True, False, "replace"), (True, False, "refuse")),
        ({"decode": {"value": VALUE}, **ROUTES}, (True, False, "replace"), (True, True, "replace")),
    ],
)
def test_headers_are_read_as_far_as_the_job_uses_them(sections: dict[str, Any], replaced: Any, refused: Any) -> None:
    """Where records are decoded, the step that decodes them refuses."""
    for names, expected in (("replace", replaced), ("refuse", refused)):
        found = options({"header_names": names}, **sections)
        assert (found.headers, found.raw_headers, found.header_names) == expected
