"""No table is made or committed to in a store that is not put-if-absent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.parquet.schema import sink_schema
from kseg.etl.tables.values import NewCommit, RunCommit

TABLE = "s3://logs/lake/orders"
RUN = RunCommit("run", "kseg/ledger/job", 1)


@pytest.mark.parametrize("conditional", ["racing", "ignored"])
def test_a_table_is_not_made_where_several_racers_win(
    memory_s3: Any, rows: Callable[..., Any], conditional: str
) -> None:
    memory_s3.conditional = conditional
    with pytest.raises(ConfigurationError, match="not put-if-absent") as refused:
        DeltaTarget(TABLE).ensure(sink_schema(rows().schema))
    assert refused.value.faults[0].path == "sink"
    assert not memory_s3.objects


@pytest.mark.parametrize(
    "work",
    [
        lambda rows: DeltaTarget(TABLE).ensure(sink_schema(rows().schema)),
        lambda _: DeltaTarget(TABLE).commit([], RUN),
        lambda _: DeltaTarget(TABLE).remove_run(RUN),
        lambda _: DeltaMaintenance(DeltaTarget(TABLE), StoreChecks()).check_store(),
    ],
    ids=["ensure", "commit", "remove_run", "maintain"],
)
def test_nothing_is_committed_to_a_table_where_the_condition_is_ignored(
    memory_s3: Any, rows: Callable[..., Any], work: Callable[..., Any]
) -> None:
    target = DeltaTarget(TABLE)
    target.ensure(sink_schema(rows().schema))
    before = {key for key in memory_s3.objects if "_delta_log" in key}
    memory_s3.conditional = "ignored"
    with pytest.raises(ConfigurationError, match="not put-if-absent"):
        work(rows)
    assert {key for key in memory_s3.objects if "_delta_log" in key} == before


def test_a_run_asks_each_store_once_and_one_that_its_ledger_lies_in_never(
    memory_s3: Any, rows: Callable[..., Any]
) -> None:
    DeltaTarget(TABLE).ensure(sink_schema(rows().schema))
    for checked, requests in ((), 2), (("s3://logs/ledger",), 0):
        memory_s3.asked.clear()
        stores = StoreChecks(*checked)
        for number in (1, 2):
            target = DeltaTarget(TABLE, stores=stores)
            target.ensure(sink_schema(rows().schema))
            done = target.commit([], RunCommit("run", f"kseg/{requests}", number))
            assert isinstance(done, NewCommit)
        assert len([key for _, key in memory_s3.asked if "_kseg" in key]) == requests
