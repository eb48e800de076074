from __future__ import annotations

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.tables.spark_session import hadoop_place


def test_a_place_that_hadoop_gives_has_nothing_encoded() -> None:
    """There `%20` is three characters of a key, and delta-rs would open another table."""
    assert hadoop_place("file:/lake/a b") == hadoop_place("file:///lake/a b") == "/lake/a b"
    assert hadoop_place("s3a://lake/a b") == "s3a://lake/a b"
    with pytest.raises(ConfigurationError, match="has the escape %20"):
        hadoop_place("s3a://lake/a%20b")
