"""kafka-segment-etl: Kafka to Delta Lake in batches, exactly once.

The folders `client`, `segment_reader`, `etl` and `jobs` of the repository are installed below this package.
Importing it loads none of them: a name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kseg.etl.kafka_writer.transactional import write_kafka

__all__ = ["write_kafka"]

_HOMES = {"write_kafka": "kseg.etl.kafka_writer.transactional"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
