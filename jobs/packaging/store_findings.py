"""Whether the stores of a job's ledger and tables are put-if-absent, as `kseg doctor JOB.yaml` reports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kseg.etl.config.paths import TOPIC_PLACEHOLDER
from kseg.etl.errors import ConfigurationError, KsegError
from kseg.etl.ledger.conditional_put import CONTENDERS, check_races, refuse_unsafe, store_of
from kseg.etl.ledger.object_store import is_local
from kseg.etl.ledger.store_errors import check_endpoint, check_place
from kseg.jobs.packaging.doctor import DoctorFinding

if TYPE_CHECKING:
    from kseg.etl.config.job import Job


def examine_stores(job: Job) -> list[DoctorFinding]:
    """One finding for each store, and for each local folder: the right to write is that of a folder. Names in a catalog
    are left out: Spark alone knows where those tables are."""
    found: dict[tuple[str, str], DoctorFinding] = {}
    for setting, location in _locations(job):
        examined = ("file", location) if is_local(location) else store_of(location)
        if examined not in found:
            found[examined] = _examine(setting, location)
    return list(found.values())


def _locations(job: Job) -> Iterator[tuple[str, str]]:
    yield "ledger", job.ledger
    for target in job.sink.targets.values():
        if target.path is not None:
            above, named, _ = target.path.partition(TOPIC_PLACEHOLDER)  # up to the folder that depends on the topic
            yield "sink", above.rpartition("/")[0] if named else above
    if job.dead_letters is not None:
        yield "sink.dead_letters", job.dead_letters
    if job.quarantine is not None:
        yield "sink.quarantine", job.quarantine


def _examine(setting: str, location: str) -> DoctorFinding:
    subject = f"store of {setting}"
    made = [] if "://" in location else [p for p in (Path(location), *Path(location).parents) if not p.exists()]
    try:
        check_place(location, setting=setting)
        refuse_unsafe(location, {}, setting=setting)
        check_endpoint(location, {}, setting=setting)
        races = check_races(location, {}, setting=setting)
    except ConfigurationError as error:
        fault = error.faults[0]
        return DoctorFinding(subject, "missing", f"{location}: {fault.message}", fault.remedy or "")
    except KsegError as error:
        return DoctorFinding(subject, "missing", f"{location}: {error.message}", error.remedy or "")
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()
    if not races:
        return DoctorFinding(
            subject, "note", f"{location}: not checked: Amazon S3 by a profile or role, HDFS, or a lock table"
        )
    return DoctorFinding(
        subject, "ok", f"{location}: put-if-absent ({races} keys, {CONTENDERS} writers, one winner each)"
    )
