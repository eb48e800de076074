"""The distribution's version; pyproject.toml has the same.

Each connection to a broker names it. To read it from the distribution's metadata takes the packages importlib.metadata
and email.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
