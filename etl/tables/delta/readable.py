"""Tables whose rows delta-rs cannot read, though it opens them and gives their schema, history and files."""

from __future__ import annotations

from typing import Final

from deltalake import DeltaTable

UNREADABLE: Final = frozenset({"typeWidening", "typeWidening-preview"})
"""Reader features (Delta protocol, "Valid Feature Names in Table Features")."""


def is_readable(table: DeltaTable) -> bool:
    """Whether delta-rs reads the rows and deletion vectors of this table."""
    return UNREADABLE.isdisjoint(table.protocol().reader_features or ())
