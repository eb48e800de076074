"""How a target table is named: by a path or URI, or by a name in a catalog."""

from __future__ import annotations


def is_name(table: str) -> bool:
    """Whether a target is a name in a catalog, not a path. A name has no slash."""
    return "/" not in table
