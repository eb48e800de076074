"""For commands that leave nothing behind."""

from __future__ import annotations

from typing import Any

from kseg.etl.telemetry.progress import NullProgress


class NoOutlets(NullProgress):
    """Gathers nothing, writes nothing, imports nothing."""

    def close(self, document: dict[str, Any], exit_code: int) -> dict[str, Any]:
        return {}
