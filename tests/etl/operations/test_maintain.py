"""What `kseg maintain` does of a job when one of its tables must not be vacuumed."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kseg.etl.errors import ConfigurationError
from kseg.etl.operations import maintain
from kseg.etl.operations.maintain import MaintenanceRequest, maintain_job
from kseg.etl.tables.errors import vacuum_of_nested
from kseg.etl.tables.values import FileCount


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

        return SimpleNamespace(
            by="spark",
            because="",
            version=lambda: 1,
            live=FileCount,
            stored=FileCount,
            check_store=lambda: None,
            exclusively=lambda *_, **__: nullcontext(),
            optimize=lambda *_, **__: done.append(f"optimize {table}"),
            vacuum=vacuum,
        )

    state = SimpleNamespace(tables=dict.fromkeys(["/a", "/b", "/c", "/d"]), unfinished_runs=list)
    context = SimpleNamespace(
        job=SimpleNamespace(name="job", sink=SimpleNamespace(single_driver=False)),
        clients=SimpleNamespace(read_state=lambda: state, ledger=SimpleNamespace(id="ledger", jobs=list)),
        lease=lambda *_, **__: nullcontext(SimpleNamespace(read=lambda: None)),
        targets=SimpleNamespace(check=lambda *_: None, maintenance=maintenance),
        progress=SimpleNamespace(phase=lambda _: None),
        stopwatch=SimpleNamespace(seconds=dict),
    )
    monkeypatch.setattr(maintain.JobContext, "open", lambda *_, **__: nullcontext(context))
    monkeypatch.setattr(maintain, "_maintain_ledger", lambda *_: done.append("ledger"))
    with pytest.raises(ConfigurationError) as caught:
        maintain_job(cast("Any", context.job), MaintenanceRequest(letters=False, dry_run=dry_run))
    assert done == [f"{step} {table}" for table in state.tables for step in ("optimize", "vacuum")] + ["ledger"]
    assert [fault.message.partition(" ")[0] for fault in caught.value.faults] == ["/b", "/d"]
    assert caught.value.exit_code == 2
