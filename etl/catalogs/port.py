"""The catalog port: a table's name in, its location and credentials out, and who may commit there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Committer = Literal["any", "spark"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a name leads to. location: path or URI of the table's folder; None if only a Spark session can tell it.

    credentials: options of the store, besides those of the environment (names as delta-rs has them).
    """

    location: str | None
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


class Catalog(ABC):
    """A catalog of tables. commits: who may commit to its tables; `any`: each writer that supports the table."""

    commits: ClassVar[Committer] = "any"

    @abstractmethod
    def holds(self, table: str) -> bool:
        """Whether a name is one of this catalog, by its form: nothing is asked. It may have placeholders for topics."""

    @abstractmethod
    def resolve(self, table: str) -> Resolved:
        """What the name leads to; the table need not exist. It is called often: keep what had to be asked for."""
