"""`kseg api`: any API, by name and JSON.

properties   client properties from a file and from `-X`
destination  which broker a request belongs to, by default and by `--to`
calling      one request and its answer
listing      what this client and a broker speak
page, requests_page   the documentation's pages on the protocol and on requests, made from the definitions
"""

from __future__ import annotations

from kseg.etl.errors import ConfigurationError


def bad_argument(name: str, message: str, remedy: str | None = None) -> ConfigurationError:
    """The error for an argument of the command line that cannot be used."""
    return ConfigurationError.of(name, message, remedy)
