"""`verify` by both ways of comparing: in the driver, as small tables are compared, and by Spark, as large ones are."""

from __future__ import annotations

from typing import Any

from kseg.etl.config.job import Job
from kseg.etl.operations.verify import VerifyReport
from kseg.etl.operations.verify import verify as verify_once


def verify(job: Job, **options: Any) -> VerifyReport:
    """The report that both give, findings and notes included."""
    in_driver, in_spark = verify_once(job, **options), verify_once(job, in_spark=True, **options)
    assert in_driver == in_spark
    return in_driver
