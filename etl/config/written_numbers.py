"""Numbers of a job file with their text: YAML 1.1 reads 010 as 8, 1_0 as 10 and 3.10 as 3.1.

Properties are passed on as text, so they need what the file says. Everywhere else a whole number that another reader
would take for another one is a fault.
"""

from __future__ import annotations

import re
from typing import Final

_DECIMAL: Final = re.compile(r"[-+]?(0|[1-9][0-9]*)")


class WrittenInt(int):
    """A whole number; text: as the file has it."""

    text: str

    @property
    def is_decimal(self) -> bool:
        """Whether all that read YAML, and people, read the same number."""
        return _DECIMAL.fullmatch(self.text) is not None


class WrittenFloat(float):
    """Any other number; text: as the file has it."""

    text: str


def as_written(value: float, text: str) -> WrittenInt | WrittenFloat:
    """The number, equal to `value`, with its text."""
    number = WrittenInt(value) if isinstance(value, int) else WrittenFloat(value)
    number.text = text
    return number
