"""A session that a program had before has its own settings again when a job has ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document
from kseg.etl.spark.job_session import JobSession

pytestmark = pytest.mark.spark

ZONE, SHUFFLES, ANSI = "spark.sql.session.timeZone", "spark.sql.shuffle.partitions", "spark.sql.ansi.enabled"


@pytest.fixture
def of_a_program(spark: Any) -> Iterator[Any]:
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, "Europe/Berlin")
    yield spark
    spark.conf.set(ZONE, before)


@pytest.fixture
def job() -> Job:
    return job_from_document(
        {
            "version": 1,
            "name": "job",
            "kafka": {"bootstrap.servers": "localhost:1"},
            "source": {"topics": ["orders"]},
            "sink": {"path": "/lake/orders"},
            "group": "orders-etl",
            "ledger": "/lake/_ledger",
            "spark": {"conf": {SHUFFLES: "3", ANSI: "false"}},
        }
    )


@pytest.mark.parametrize("opened", ["session", "context"])
def test_settings_of_a_job_end_with_it(of_a_program: Any, job: Job, opened: str) -> None:
    """Later queries of a notebook were made in UTC."""
    before = {key: of_a_program.conf.get(key, None) for key in (ZONE, SHUFFLES, ANSI)}
    first, second = JobSession(job), JobSession(job)
    getattr(first, opened)()
    thread = threading.Thread(target=getattr(second, opened))
    thread.start()
    thread.join()
    first.close()
    assert [of_a_program.conf.get(key) for key in (ZONE, SHUFFLES, ANSI)] == ["UTC", "3", "false"]
    second.close()
    assert {key: of_a_program.conf.get(key, None) for key in (ZONE, SHUFFLES, ANSI)} == before
    second.close()
    assert {key: of_a_program.conf.get(key, None) for key in (ZONE, SHUFFLES, ANSI)} == before
