"""Kafka to Delta and back. `etl.write_kafka` (from `etl.sink.transactional`) is loaded when it is asked for: workers
import this package, and most of them need nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from etl.sink.transactional import write_kafka

__all__ = ["write_kafka"]


def __getattr__(name: str) -> Any:
    if name == "write_kafka":
        from etl.sink.transactional import write_kafka

        return write_kafka
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
