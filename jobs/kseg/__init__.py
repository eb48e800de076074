"""kafka-segment-etl: Kafka to Delta Lake in batches, exactly once.

The folders `client`, `segment_reader`, `etl` and `jobs` of the repository are installed below this package.
Importing it loads none of them: each public name is loaded when it is first used (PEP 562).
docs/reference/python-api.md has examples.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers take it for typing's, which would be one more module to load

if TYPE_CHECKING:  # a test compares these imports with _MODULES
    from typing import Any

    from kseg.client.errors import KafkaError as KafkaError
    from kseg.etl.config.job import Job as Job
    from kseg.etl.errors import AnotherRunActive as AnotherRunActive
    from kseg.etl.errors import ConfigurationError as ConfigurationError
    from kseg.etl.errors import KsegError as KsegError
    from kseg.etl.errors import Refused as Refused
    from kseg.etl.errors import RetriableFailure as RetriableFailure
    from kseg.etl.kafka_writer.transactional import KafkaWrite as KafkaWrite
    from kseg.etl.kafka_writer.transactional import write_kafka as write_kafka
    from kseg.etl.operations.status import StatusReport as StatusReport
    from kseg.etl.operations.verify import VerifyReport as VerifyReport
    from kseg.etl.run.drain import DrainReport as DrainReport
    from kseg.etl.run.report import RunReport as RunReport
    from kseg.etl.telemetry.progress import NullProgress as NullProgress
    from kseg.etl.telemetry.progress import Progress as Progress
    from kseg.jobs.python_api import backfill as backfill
    from kseg.jobs.python_api import drain as drain
    from kseg.jobs.python_api import load_job as load_job
    from kseg.jobs.python_api import plan as plan
    from kseg.jobs.python_api import read as read
    from kseg.jobs.python_api import run as run
    from kseg.jobs.python_api import status as status
    from kseg.jobs.python_api import verify as verify

    __version__: str

#: Each public name and the module that defines it.
_MODULES = {
    "AnotherRunActive": "kseg.etl.errors",
    "ConfigurationError": "kseg.etl.errors",
    "DrainReport": "kseg.etl.run.drain",
    "Job": "kseg.etl.config.job",
    "KafkaError": "kseg.client.errors",
    "KafkaWrite": "kseg.etl.kafka_writer.transactional",
    "KsegError": "kseg.etl.errors",
    "NullProgress": "kseg.etl.telemetry.progress",
    "Progress": "kseg.etl.telemetry.progress",
    "Refused": "kseg.etl.errors",
    "RetriableFailure": "kseg.etl.errors",
    "RunReport": "kseg.etl.run.report",
    "StatusReport": "kseg.etl.operations.status",
    "VerifyReport": "kseg.etl.operations.verify",
    "backfill": "kseg.jobs.python_api",
    "drain": "kseg.jobs.python_api",
    "load_job": "kseg.jobs.python_api",
    "plan": "kseg.jobs.python_api",
    "read": "kseg.jobs.python_api",
    "run": "kseg.jobs.python_api",
    "status": "kseg.jobs.python_api",
    "verify": "kseg.jobs.python_api",
    "write_kafka": "kseg.etl.kafka_writer.transactional",
}

__all__ = list(_MODULES)


if not TYPE_CHECKING:  # to a type checker it would give every name a type

    def __getattr__(name: str) -> Any:
        from importlib import import_module

        if name == "__version__":
            return import_module("kseg.client.wire.version").VERSION
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, "__version__"})
