"""Numbers of a job file with their text: YAML 1.1 reads 010 as 8, 1_0 as 10 and 3.10 as 3.1.

Properties are passed on as text, so they need what the file says. Everywhere else a whole number that another reader
would take for another one is a fault. A key is a name, and so is its text: `on`, which YAML reads as true, and 1.
"""

from __future__ import annotations

import re
from typing import Any, Final

NOT_DECIMAL: Final = (
    "has a leading zero, an underscore or a prefix, so that YAML reads another number",
    "write decimal digits alone, as in 1000000; text goes into quotes",
)

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


class WrittenKey(str):
    """A mapping's key without quotes that YAML does not read as text; as text it is what the file has.

    read: the number, true or false that YAML reads.
    """

    __slots__ = ("read",)

    read: bool | WrittenInt | WrittenFloat


def key_as_written(text: str, read: bool | WrittenInt | WrittenFloat) -> WrittenKey:
    """The key with what YAML reads in it."""
    key = WrittenKey(text)
    key.read = read
    return key


def key_as_read(key: Any) -> Any:
    """What YAML reads in a mapping's key: for keys that are numbers to the job file as well."""
    return key.read if isinstance(key, WrittenKey) else key


def as_written(value: float, text: str) -> WrittenInt | WrittenFloat:
    """The number, equal to `value`, with its text."""
    number = WrittenInt(value) if isinstance(value, int) else WrittenFloat(value)
    number.text = text
    return number
