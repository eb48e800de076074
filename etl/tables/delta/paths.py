"""Paths of data files in a Delta log: which of them delta-rs can name in a `remove`.

A `remove` takes away the file whose `add` has the same text. delta-rs is given decoded paths and encodes them, also
those that another writer has encoded in another way: Spark leaves characters beyond ASCII as they are. Such a `remove`
would take nothing away, and what the file had been replaced by would come to it.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote

from deltalake import DeltaTable

# What `serde_path` of delta-rs leaves as it is, beside letters, digits and "_.-~".
_LITERAL: Final = "!$&'()+,/:;=@"


def can_name(path: str) -> bool:
    """Whether a `remove` by delta-rs has this path, as the log has it."""
    return quote(unquote(path), safe=_LITERAL) == path


def names_all(table: DeltaTable) -> bool:
    """Whether it can name each file of a snapshot."""
    return all(map(can_name, table.get_add_actions().column("path").to_pylist()))
