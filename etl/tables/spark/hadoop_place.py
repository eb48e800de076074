"""Where a table lies by what Spark tells of it (`DESCRIBE DETAIL`)."""

from __future__ import annotations

from kseg.etl.ledger.store_errors import check_place


def hadoop_place(location: str) -> str:
    """The path or URL for the text of a Hadoop path, in which nothing is percent-encoded, even in a `file:` URI.

    Raises:
        ConfigurationError: delta-rs takes it for another place.
    """
    place = f"/{location.removeprefix('file:').lstrip('/')}" if location.startswith("file:") else location
    check_place(place, setting="sink", may_escape=False, table=place)
    return place
