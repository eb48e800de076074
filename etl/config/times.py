"""Instants and durations as people write them in a job file or on a command line.

Instants are ISO 8601 *with* a time zone: a time without one would mean another offset on another machine. Inside they
are aware datetimes in UTC, so that two spellings of one instant are one value (and one run id).
Durations are a number and a unit, as often as needed: `90s`, `2m`, `1h30m`, `500ms`, `1d`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# A date and a time with a `T` or a blank between them, or a date alone. Python's own parser takes any separator, and
# would take `20260101:10:55` (a topic, a partition, an offset) for a time.
_INSTANT = re.compile(r"\d{4}-\d{2}-\d{2}([Tt ]\S+( ?[+-]\S+)?)?|\d{8}[Tt]\S+")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

DURATION_PATTERN = r"^(\s*\d+(\.\d+)?\s*(ms|s|m|h|d))+\s*$"
INSTANT_PATTERN = r"^\d{4}-?\d{2}-?\d{2}[Tt ]\S.*([Zz]|[+-]\d{2}(:?\d{2})?)$"
"""What a JSON Schema says of them."""

INSTANT_REMEDY = "write it with a time zone, as in 2026-01-01T00:00:00Z or 2026-01-01T01:00:00+01:00"
DURATION_REMEDY = "write a number with a unit (ms, s, m, h, d), as in 30s, 2m or 1h30m"


class NaiveInstantError(ValueError):
    """A time without a time zone."""

    def __init__(self) -> None:
        super().__init__("has no time zone")


def looks_like_instant(text: str) -> bool:
    """Whether the text was meant as a date or a time (it may still be a wrong one)."""
    return _INSTANT.fullmatch(text.strip()) is not None


def parse_instant(text: str) -> datetime:
    """ISO 8601 with a time zone -> aware datetime in UTC. Raises ValueError, NaiveInstantError without a zone."""
    text = text.strip()
    if not looks_like_instant(text):
        raise ValueError("is not an ISO 8601 time")
    try:
        instant = datetime.fromisoformat(text.upper())
    except ValueError:
        raise ValueError("is not an ISO 8601 time") from None
    return in_utc(instant)


def in_utc(instant: datetime) -> datetime:
    """The same instant in UTC. Raises ValueError for a naive one."""
    if instant.tzinfo is None:
        raise NaiveInstantError
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError("is outside the years 1 to 9999 in UTC") from None


def format_instant(instant: datetime) -> str:
    """The spelling that is hashed and pinned: UTC, `Z`, a fraction only where there is one."""
    return in_utc(instant).isoformat().replace("+00:00", "Z")


def epoch_millis(instant: datetime) -> int:
    """Milliseconds since 1970, rounded up, since ListOffsets finds the first record *at or after* a millisecond."""
    return -((_EPOCH - in_utc(instant)) // _MILLISECOND)


def parse_duration(text: str) -> timedelta:
    """`2m`, `1h30m`, `500ms` -> timedelta. Raises ValueError with a plain reason."""
    compact = text.strip().replace(" ", "")
    parts = _DURATION.findall(compact)
    if not parts or "".join(number + unit for number, unit in parts) != compact:
        raise ValueError("is not a duration")
    units = [unit for _, unit in parts]
    if len(set(units)) != len(units):
        raise ValueError("has a unit twice")
    try:
        return timedelta(**{_UNITS[unit]: float(number) for number, unit in parts})
    except OverflowError:
        raise ValueError("is too long") from None


def format_duration(duration: timedelta) -> str:
    """The spelling that is pinned: whole seconds (`120s`) or milliseconds (`500ms`)."""
    millis = duration // _MILLISECOND
    return f"{millis // 1000}s" if millis % 1000 == 0 else f"{millis}ms"


def format_millis(millis: int) -> str:
    """Milliseconds since 1970 as `format_instant` writes them; as a number where no calendar has them."""
    try:
        return format_instant(_EPOCH + timedelta(milliseconds=millis))
    except OverflowError:
        return f"{millis} ms"
