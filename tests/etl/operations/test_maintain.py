"""What `kseg maintain` does of a job's tables: when one of them must not be vacuumed, and the retention of VACUUM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.ledger.values import TableState
from kseg.etl.operations import maintain
from kseg.etl.operations.maintain import MaintenanceRequest, maintain_job
from kseg.etl.tables.errors import vacuum_of_nested
from kseg.etl.tables.values import FileCount


def maintenance_of(**methods: Any) -> Any:
    """A `Maintenance` by Spark. methods: those that differ."""
    usual = {"check_store": lambda: None, "exclusively": lambda *_, **__: nullcontext(), "retention": lambda: None}
    counts = {"version": lambda: 1, "live": FileCount, "stored": FileCount}
    return SimpleNamespace(by="spark", because="", **(usual | counts | methods))


def job_of(monkeypatch: pytest.MonkeyPatch, tables: Sequence[str], maintenance: Callable[..., Any]) -> Any:
    """A job with these tables and no unfinished run."""
    state = SimpleNamespace(
        tables={name: TableState(name, 1) for name in tables}, unfinished_runs=list, table_records={}
    )
    context = SimpleNamespace(
        job=SimpleNamespace(name="job", sink=SimpleNamespace(single_driver=False)),
        clients=SimpleNamespace(read_state=lambda: state, ledger=SimpleNamespace(id="ledger", jobs=list)),
        lease=lambda *_, **__: nullcontext(SimpleNamespace(read=lambda: None)),
        targets=SimpleNamespace(check=lambda _, known: known.state, maintenance=maintenance),
        progress=SimpleNamespace(phase=lambda _: None),
        stopwatch=SimpleNamespace(seconds=dict),
    )
    monkeypatch.setattr(maintain.JobContext, "open", lambda *_, **__: nullcontext(context))
    return context.job


@pytest.mark.parametrize("dry_run", [True, False])
def test_the_rest_is_done_where_a_table_lies_inside_another(monkeypatch: pytest.MonkeyPatch, dry_run: bool) -> None:
    """Spark would vacuum the inner table, too. It stopped all that came behind, and the ledger too."""
    done: list[str] = []

    def maintenance(table: str, *, z_order: bool) -> Any:
        def vacuum(*_: Any, **__: Any) -> FileCount:
            done.append(f"vacuum {table}")
            if table in ("/b", "/d"):
                raise vacuum_of_nested(table, [f"{table}/inside"])
            return FileCount(1, 1)

        return maintenance_of(
            optimize=lambda *_, **__: done.append(f"optimize {table}"),
            vacuum=vacuum,
        )

    tables = ["/a", "/b", "/c", "/d"]
    job = job_of(monkeypatch, tables, maintenance)
    monkeypatch.setattr(maintain, "_maintain_ledger", lambda *_: done.append("ledger"))
    with pytest.raises(ConfigurationError) as caught:
        maintain_job(job, MaintenanceRequest(letters=False, dry_run=dry_run))
    assert done == [f"{step} {table}" for table in tables for step in ("optimize", "vacuum")] + ["ledger"]
    assert [fault.message.partition(" ")[0] for fault in caught.value.faults] == ["/b", "/d"]
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("own", "asked", "allow_short", "kept"),
    [
        (None, 7, False, 7),
        (30, 7, False, 30),
        (30, 14, False, 30),
        (30, 40, False, 40),
        (30, 14, True, 14),
        (1, 7, False, 7),
    ],
)
def test_vacuum_keeps_files_as_long_as_the_table_says(
    monkeypatch: pytest.MonkeyPatch, own: int | None, asked: int, allow_short: bool, kept: int
) -> None:
    found: list[timedelta] = []

    def vacuum(retention: timedelta, *_: Any, **__: Any) -> FileCount:
        found.append(retention)
        return FileCount()

    own_retention = None if own is None else timedelta(days=own)
    maintenance = maintenance_of(vacuum=vacuum, retention=lambda: own_retention)
    job = job_of(monkeypatch, ["/a"], lambda *_, **__: maintenance)
    request = MaintenanceRequest(False, vacuum=timedelta(days=asked), letters=False, ledger=False)
    report = maintain_job(job, replace(request, allow_short=allow_short))
    assert found == [timedelta(days=kept)]
    assert bool(report.notes) == (kept > asked)
    assert report.tables[0].retention == f"{kept * 86_400}s"
