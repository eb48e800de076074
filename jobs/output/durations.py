"""Durations and ages as readable text."""

from __future__ import annotations


def duration(seconds: float | None) -> str:
    """0.42 s, 12.3 s, 4 min 05 s, 2 h 03 min."""
    if seconds is None:
        return "–"
    if seconds < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def age(seconds: float) -> str:
    """An age as text: 7 s, 12 min, 3 h or 5 d ago."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit} ago"
    return f"{max(0.0, seconds):.0f} s ago"
