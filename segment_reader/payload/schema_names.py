"""What begins the names of schemas in plans, routes and errors, where an id alone is not enough.

Loads no numpy: job files are checked with it.
"""

from __future__ import annotations

from typing import Final

GLOBAL_ID: Final = "global/"
"""Of a global id in Apicurio, `global/7`: other ids are those of its API in Confluent's form."""
