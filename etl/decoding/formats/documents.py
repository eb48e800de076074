"""Documents in sampled payloads, from whose fields `kseg init` infers columns. A format's recogniser returns them.

null, true, false     None, bool
a number              Whole or Fraction
text                  str
an array              list
an object             Members
"""

from __future__ import annotations

from typing import Any


class Whole(str):
    """A number without fraction and exponent, as written."""


class Fraction(str):
    """A number with fraction or exponent, as written."""


class Members(list[tuple[str, Any]]):
    """An object's members in their order; a name may occur twice."""
