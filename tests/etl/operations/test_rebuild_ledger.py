"""A ledger rebuilt from tables: what it does to them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from kseg.etl.ledger.lease import Lease
from kseg.etl.operations.rebuild_ledger import _Rebuilding
from kseg.etl.tables.values import RunCommit


class Target:
    """Notes what is done to it, and under which lease."""

    def __init__(self) -> None:
        self.holder: Any = None
        self.done: list[tuple[RunCommit, Any]] = []

    @contextmanager
    def exclusively(self, lease: Lease, *, wait: timedelta) -> Iterator[None]:
        self.holder = lease
        yield
        self.holder = None

    def remove_run(self, run: RunCommit) -> None:
        self.done.append((run, self.holder))


def test_lost_drivers_are_fenced_with_the_tables_lease() -> None:
    job = SimpleNamespace(name="job", commits_offsets=False, run=SimpleNamespace(deadline=timedelta(0)))
    targets: dict[str, Target] = {"t": Target(), "other": Target()}
    context = SimpleNamespace(job=job, targets=SimpleNamespace(target=targets.__getitem__))
    found: dict[str, Any] = {"t": {"kseg/lost/job": 7}, "other": {"kseg/x/job": 3}}
    lease = cast("Any", object())
    _Rebuilding(cast("Any", context), cast("Any", None), None, {}, found, ("lost",)).fence_lost_drivers(lease)
    assert targets["t"].done == [(RunCommit("ledger-rebuilt", "kseg/lost/job", 8), lease)]
    assert not targets["other"].done
