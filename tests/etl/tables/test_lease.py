"""The lease of a table: two chains, or two ledgers, that both let Spark commit to it meet there."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Schema

from kseg.etl.errors import AnotherRunActive, ConfigurationError
from kseg.etl.ledger.conditional_put import StoreChecks
from kseg.etl.ledger.errors import LeaseLost
from kseg.etl.ledger.holder_process import known_dead
from kseg.etl.ledger.lease import Lease, acquire
from kseg.etl.ledger.store import Ledger
from kseg.etl.tables import lease as table_leases
from kseg.etl.tables.delta.commit import DeltaTarget
from kseg.etl.tables.delta.maintenance import DeltaMaintenance
from kseg.etl.tables.lease import has_lease, table_lease
from kseg.etl.tables.parquet.storage import TableLocation

NO_WAIT = timedelta(0)


def clock(sleep: Callable[[float], None]) -> SimpleNamespace:
    """The module `time` for the lease alone: other threads' loops go on to sleep."""
    return SimpleNamespace(monotonic=time.monotonic, sleep=sleep)


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Callable[..., Lease]]:
    """chain(ledger, name): the lease of a chain in one of several ledgers."""
    with ExitStack() as held:

        def take(ledger: str = "a", name: str = "incremental", **how: Any) -> Lease:
            how.setdefault("duration", timedelta(minutes=1))
            return held.enter_context(acquire(Ledger.open(tmp_path / ledger), "orders", name, **how))

        yield take


@pytest.fixture
def table(tmp_path: Path) -> TableLocation:
    return TableLocation.of(tmp_path / "table")


@pytest.mark.parametrize(("ledger", "name"), [("a", "0" * 32), ("b", "incremental")], ids=["two chains", "two ledgers"])
def test_one_has_it_at_a_time(
    chain: Callable[..., Lease], table: TableLocation, tmp_path: Path, ledger: str, name: str
) -> None:
    first, second = chain(), chain(ledger, name)
    (tmp_path / "alias").symlink_to(tmp_path / "table")  # another route to the same table
    (tmp_path / "table").mkdir()
    with table_lease(table, first, wait=NO_WAIT) as held:
        with (
            pytest.raises(AnotherRunActive, match="holds the lease of a table that Spark writes") as active,
            table_lease(TableLocation.of(tmp_path / "alias"), second, wait=NO_WAIT),
        ):
            pass
        assert "orders/incremental" in (active.value.owner or "")
        held.check()
    with table_lease(table, second, wait=NO_WAIT):
        pass


def test_the_next_waits_until_it_is_released(
    chain: Callable[..., Lease], table: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = chain(), chain("b")
    with ExitStack() as held:
        held.enter_context(table_lease(table, first, wait=NO_WAIT))
        monkeypatch.setattr(table_leases, "time", clock(lambda _: held.close()))
        with table_lease(table, second, wait=timedelta(minutes=1)) as lease:
            lease.check()


def test_who_waits_long_asks_less_often(
    chain: Callable[..., Lease], table: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = chain(), chain("b")
    pauses: list[float] = []
    with ExitStack() as held:
        held.enter_context(table_lease(table, first, wait=NO_WAIT))

        def sleep(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 6:
                held.close()

        monkeypatch.setattr(table_leases, "time", clock(sleep))
        with table_lease(table, second, wait=timedelta(hours=1)):
            assert pauses == [1, 2, 4, 8, 15, 15]


@pytest.mark.parametrize("spark_may_commit", [True, False])
def test_maintenance_takes_the_lease_of_a_table_that_spark_may_commit_to(
    chain: Callable[..., Lease], tmp_path: Path, spark_may_commit: bool
) -> None:
    """Also where delta-rs rewrites the files: Spark would overwrite its commit too."""
    properties = {"delta.enableChangeDataFeed": "true"} if spark_may_commit else {}
    path = str(tmp_path / "table")
    DeltaTable.create(path, Schema.from_arrow(pa.schema([("n", pa.int64())])), configuration=properties)
    first, second = chain(), chain("b")
    maintenance = DeltaMaintenance(DeltaTarget(path, beside_spark=True), StoreChecks())
    busy = pytest.raises(AnotherRunActive) if spark_may_commit else nullcontext()
    with (
        DeltaTarget(path, beside_spark=True).exclusively(first, wait=NO_WAIT),
        busy,
        maintenance.exclusively(second, wait=NO_WAIT),
    ):
        pass


def test_the_next_holder_of_the_chain_takes_it_at_once_and_the_former_one_learns_it(
    chain: Callable[..., Lease], table: TableLocation
) -> None:
    with table_lease(table, chain(), wait=NO_WAIT) as former:
        with table_lease(table, chain(take_over=True), wait=NO_WAIT) as lease:
            assert (former.attempt, lease.attempt) == (1, 2)
            with pytest.raises(LeaseLost):
                former.transition(lambda state: [])
            with pytest.raises(LeaseLost):
                former.check()
        with pytest.raises(LeaseLost):
            former.check()


def test_that_of_a_dead_process_has_to_expire_since_its_jvm_may_still_commit(
    chain: Callable[..., Lease], table: TableLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = "import sys; from kseg.etl.ledger.lease import owner_name; print(owner_name())"
    dead = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    assert known_dead(dead)
    with ExitStack() as killed:
        with monkeypatch.context() as patched:
            patched.setattr(table_leases, "owner_name", lambda: dead)
            killed.enter_context(table_lease(table, chain(), wait=NO_WAIT))
        after = chain(succeeds=lambda _: True)
        with pytest.raises(AnotherRunActive), table_lease(table, after, wait=NO_WAIT):
            pass
        with table_lease(table, chain(take_over=True), wait=NO_WAIT):
            pass


def test_one_that_is_not_renewed_expires(chain: Callable[..., Lease], table: TableLocation) -> None:
    dead = chain(duration=timedelta(seconds=1))
    context = table_lease(table, dead, wait=NO_WAIT)
    lease = context.__enter__()
    lease._stop.set()  # a process that ended
    with table_lease(table, chain("b"), wait=timedelta(seconds=30)), pytest.raises(LeaseLost):
        lease.check()


def test_its_loss_is_told_to_whoever_works_under_it(chain: Callable[..., Lease], table: TableLocation) -> None:
    told: list[str] = []
    with (
        table_lease(table, chain(), wait=NO_WAIT) as former,
        former.on_loss(lambda: told.append("cancelled")),
        table_lease(table, chain(take_over=True), wait=NO_WAIT),
        pytest.raises(LeaseLost),
    ):
        former.transition(lambda state: [])
    assert told[0] == "cancelled"


def test_a_store_that_is_not_put_if_absent_has_no_lease(chain: Callable[..., Lease], memory_s3: Any) -> None:
    memory_s3.conditional = "ignored"
    with (
        pytest.raises(ConfigurationError, match="not put-if-absent") as refused,
        table_lease(TableLocation.of("s3://logs/table"), chain(), wait=NO_WAIT),
    ):
        pass
    assert refused.value.faults[0].path == "sink.single_driver"


@pytest.mark.parametrize(
    ("properties", "beside_spark", "takes_it"),
    [
        ({"delta.enableChangeDataFeed": "true"}, True, True),
        ({"delta.enableDeletionVectors": "true"}, True, True),
        ({"delta.enableChangeDataFeed": "true"}, False, False),
        ({}, True, True),  # Spark has once: somebody has the lease
        ({}, False, False),
    ],
)
def test_delta_rs_commits_with_it_where_spark_may_commit_too(
    chain: Callable[..., Lease],
    table: TableLocation,
    properties: dict[str, str],
    beside_spark: bool,
    takes_it: bool,
) -> None:
    schema = Schema.from_arrow(pa.schema([pa.field("a", pa.int64())]))
    DeltaTable.create(table.uri, schema, configuration=properties, raise_if_key_not_exists=False)
    target = DeltaTarget(table.uri, beside_spark=beside_spark)
    refused = pytest.raises(AnotherRunActive) if takes_it else nullcontext()
    with table_lease(table, chain(), wait=NO_WAIT), refused, target.exclusively(chain("b"), wait=NO_WAIT):
        pass
    with target.exclusively(chain("c"), wait=NO_WAIT):
        pass


def test_a_table_that_spark_never_committed_to_has_none(chain: Callable[..., Lease], table: TableLocation) -> None:
    DeltaTable.create(table.uri, Schema.from_arrow(pa.schema([pa.field("a", pa.int64())])))
    target = DeltaTarget(table.uri, beside_spark=True)
    with target.exclusively(chain(), wait=NO_WAIT), target.exclusively(chain("b"), wait=NO_WAIT):
        pass
    assert not has_lease(table)
