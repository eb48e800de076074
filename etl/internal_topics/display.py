"""Values as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def time_of(millis: int | None) -> str | None:
    """Milliseconds since 1970 as ISO 8601 in UTC; None for none (-1), and the number itself beyond the year 9999."""
    if millis is None or millis < 0:
        return None
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except (OverflowError, ValueError, OSError):
        return str(millis)
