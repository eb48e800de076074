"""Which of a table's rows an abandonment would lose, by the addresses in the rows."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import RetriableFailure
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetSet
from kseg.etl.operations import rows_at_stake
from kseg.etl.operations.rows_at_stake import RowsAtStake
from kseg.etl.tables.delta.table import DeltaAccess

TP = TopicPartition("orders", 0)
GONE = {TP: OffsetSet.single(0, 4)}
OWN = {"topic": ["orders"] * 6, "partition": pa.array([0] * 6, pa.int32()), "offset": [*range(6)]}
KSEG = {f"_kseg_{name}": values for name, values in OWN.items()}
NONE = {
    f"_kseg_{name}": pa.nulls(6, kind)
    for name, kind in (("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()))
}


def stake_in(path: str, access: Any, *, addresses: bool = True, recorded: int | None = None) -> RowsAtStake:
    """What the run `r` has at stake in a table. recorded: the rows of its landing in the ledger; None: not recorded."""
    plan = SimpleNamespace(
        dead_letters=None,
        pinned_config=json.dumps({"sink": {"addresses": addresses}}),
        ranges=[ev.PlannedRange("orders", 0, 0, 10)],
    )
    landed = {} if recorded is None else {path: SimpleNamespace(rows=recorded)}
    run = SimpleNamespace(run_id="r", plan=plan, quarantine=None, landed=landed)
    context = SimpleNamespace(targets=SimpleNamespace(access=lambda _: access))
    return rows_at_stake._in_table(cast("Any", context), cast("Any", run), path, GONE, {})


@pytest.mark.parametrize(
    ("columns", "addresses", "gone", "unknown"),
    [
        (OWN, True, 4, 0),
        (KSEG, True, 4, 0),
        ({**OWN, "topic": ["of the payload"] * 6, **KSEG}, True, 4, 0),
        ({**OWN, "topic": ["of the payload"] * 6}, False, 0, 6),
        ({**OWN, "partition": ["of the payload"] * 6}, False, 0, 6),
        ({**OWN, **NONE}, True, 0, 6),
        ({"x": [1] * 6}, False, 0, 6),
    ],
    ids=["own", "kept by kseg", "both", "none, one of its name", "none, of another type", "null", "no such columns"],
)
def test_rows_are_counted_by_their_own_addresses(
    columns: dict[str, Any], addresses: bool, gone: int, unknown: int, tmp_path: Path
) -> None:
    """Rows of a job with `addresses: false` were compared by columns of the payload, and none was at stake."""
    path = str(tmp_path / "table")
    write_deltalake(path, pa.table({**columns, "_kseg_run": ["r"] * 6}))
    found = stake_in(path, DeltaAccess(path), addresses=addresses, recorded=6)
    assert (found.gone, found.unknown) == (gone, unknown)


@pytest.mark.parametrize(("recorded", "unknown"), [(None, 10), (6, 6), (0, 0)])
def test_rows_that_cannot_be_read_are_unknown(recorded: int | None, unknown: int) -> None:
    """Those of a landing that the ledger does not have were none, and the abandonment asked nobody."""

    def fail(*_: Any) -> Any:
        raise RetriableFailure("no answer")

    access = SimpleNamespace(
        name="t", state=lambda: ev.TableState("id", 1), column_names=lambda: [*OWN, "_kseg_run"], scan=fail
    )
    assert stake_in("t", access, recorded=recorded).unknown == unknown
