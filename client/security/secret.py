"""Text that must not be shown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """A password, a key or a token. Its `repr`, `str` and format are a mask; `reveal()` gives the text.

    It is pickled with its text, since a worker has to log in as well.
    """

    _text: str = field(repr=False)

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"
