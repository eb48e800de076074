"""The reporter of commands that have no report options."""

from __future__ import annotations

from typing import Any

from kseg.etl.telemetry.progress import NullProgress


class NullReporter(NullProgress):
    """Records nothing, writes nothing, imports nothing."""

    def close(self, document: dict[str, Any], exit_code: int) -> dict[str, Any]:
        return {}
