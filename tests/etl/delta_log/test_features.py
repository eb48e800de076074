"""Which tables can be read: a list of what is known, and everything else by its name."""

from __future__ import annotations

import pytest

from delta_logs import protocol
from kseg.etl.delta_log.actions import Protocol
from kseg.etl.delta_log.errors import UnsupportedTable
from kseg.etl.delta_log.features import READABLE, check_readable


@pytest.mark.parametrize("feature", sorted(READABLE))
def test_features_that_are_known_are_fine(feature: str) -> None:
    check_readable(Protocol.of(protocol(reader=[feature])["protocol"]), table="t", version=3)


def test_an_error_names_all_reasons() -> None:
    of = Protocol.of({**protocol(reader=["x", "catalogManaged", "v2Checkpoint"])["protocol"], "minReaderVersion": 4})
    with pytest.raises(UnsupportedTable, match="catalogManaged, table feature x, reader version 4") as caught:
        check_readable(of, table="t", version=3)
    assert caught.value.address == {"table": "t", "version": 3}


def test_features_of_writers_do_not_matter() -> None:
    check_readable(Protocol.of(protocol("rowTracking", "ofTheFuture")["protocol"]), table="t", version=3)
