"""What a target's name leads to: a catalog maps it to a location, the credentials for it, and who may commit there.

target           catalog    location          credentials           commits
---------------  ---------  ----------------  --------------------  -----------------------------------------
has a slash      paths      the path or URI   the environment's     any writer that supports the table
has no slash     Spark's    Spark knows it    Spark's               Spark
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Committer = Literal["any", "spark"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a name leads to. location: path or URI of the table's folder; None if only a Spark session can tell it.

    credentials: options of the store, besides those of the environment. commits: who may commit to the table.
    """

    location: str | None
    credentials: Mapping[str, str] = field(default_factory=dict)
    commits: Committer = "any"


def resolve(table: str) -> Resolved:
    """Resolve a target of the job file, without any request."""
    return Resolved(table) if "/" in table else Resolved(None, commits="spark")
