"""Masks secrets in what is printed, or written to ledgers and reports.

Messages of kseg never contain secrets; those of Spark, the JVM or an object store may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kseg.etl.config.secrets import MASK

_SHORTEST_SECRET = 4


@dataclass(slots=True)
class Redactor:
    """Masks known secrets in texts and documents."""

    secrets: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, values: Iterable[str]) -> Redactor:
        made = cls()
        made.learn(values)
        return made

    def learn(self, values: Iterable[str]) -> None:
        """Mask these values, too, except values of less than four characters, which would mask ordinary text."""
        for value in values:
            if len(value) >= _SHORTEST_SECRET:
                self.secrets |= {value, repr(value)[1:-1]}

    def clean(self, value: Any) -> Any:
        """The same value with every known secret masked, at any depth."""
        if isinstance(value, str):
            for secret in sorted(self.secrets, key=len, reverse=True):
                value = value.replace(secret, MASK)
            return value
        if isinstance(value, Mapping):
            return {key: self.clean(inner) for key, inner in value.items()}
        return [self.clean(inner) for inner in value] if isinstance(value, list | tuple) else value
