"""Which tables can be read: a list of what is known, and everything else by its name."""

from __future__ import annotations

import pytest

from delta_logs import MemoryLog, add, metadata, protocol
from kseg.etl.delta_log.actions import TableProtocol
from kseg.etl.delta_log.errors import UnsupportedTable
from kseg.etl.delta_log.features import READABLE, check_readable
from kseg.etl.delta_log.table_log import DeltaLog

CATALOG: frozenset[str] = frozenset({"catalogManaged", "catalogOwned-preview"})
"""Features with which the newest commits are not in the log's folder, or only in its folder `_staged_commits`."""

PROTOCOL: frozenset[str] = CATALOG | {
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "typeWidening",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "variantShredding",
    "variantType",
}
"""The reader features of the protocol's "Valid Feature Names in Table Features" without previews of final ones."""


def opened(*features: str, **more: object) -> DeltaLog:
    log = MemoryLog("t")
    log.commit(0, protocol(reader=features, **more), metadata(), add("a", 3))
    return DeltaLog(log)


def test_every_reader_feature_of_the_protocol_is_decided_about() -> None:
    previews = {f"{name}-preview" for name in PROTOCOL}
    assert PROTOCOL - CATALOG <= READABLE <= (PROTOCOL | previews) - CATALOG


@pytest.mark.parametrize("feature", sorted(CATALOG | {"ofTheFuture", "DeletionVectors"}))
def test_a_table_whose_newest_state_may_be_elsewhere_is_refused_by_name(feature: str) -> None:
    for table in (opened("v2Checkpoint", feature), opened(feature)):
        with pytest.raises(UnsupportedTable, match=f"here to read it: table feature {feature} ") as caught:
            table.newest()
        assert caught.value.address == {"table": "t", "version": 0}
        assert caught.value.reasons == (f"table feature {feature}",)


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_later_reader_version_is_refused(version: int) -> None:
    table = opened(minReaderVersion=version)
    if version > 3:
        with pytest.raises(UnsupportedTable, match=f"reader version {version}"):
            table.newest()
    else:
        assert table.newest() is not None


def test_an_error_names_all_reasons() -> None:
    of = TableProtocol.of(
        {**protocol(reader=["x", "catalogManaged", "v2Checkpoint"])["protocol"], "minReaderVersion": 4}
    )
    with pytest.raises(UnsupportedTable, match="catalogManaged, table feature x, reader version 4"):
        check_readable(of, table="t", version=3)


def test_features_of_writers_do_not_matter_to_readers() -> None:
    check_readable(TableProtocol.of(protocol("rowTracking", "ofTheFuture")["protocol"]), table="t", version=3)
