"""`verify` by both ways of comparing: in the driver, as small tables are compared, and by Spark, as large ones are."""

from __future__ import annotations

from typing import Any

from kseg.etl.config.job import Job
from kseg.etl.operations.verify import VerifyReport
from kseg.etl.operations.verify import verify as verify_once
from skips import FULL


def verify_both_ways(job: Job, **options: Any) -> VerifyReport:
    """The report that both give, findings and notes included."""
    in_driver, in_spark = verify_once(job, **options), verify_once(job, in_spark=True, **options)
    assert in_driver == in_spark
    return in_driver


def verify(job: Job, **options: Any) -> VerifyReport:
    """The report of the driver's comparison; in the full scale Spark has to give the same.

    For tests of what is compared rather than of who compares: those of `kseg verify` itself and a few others compare
    both ways in each scale.
    """
    return verify_both_ways(job, **options) if FULL else verify_once(job, **options)
