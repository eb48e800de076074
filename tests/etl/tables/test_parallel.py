"""Tables are looked at side by side, and told in their order."""

from __future__ import annotations

import threading

import pytest

from kseg.etl.tables.parallel import AT_ONCE, parallel_map


def test_tables_at_paths_are_looked_at_side_by_side() -> None:
    together = threading.Barrier(AT_ONCE, timeout=60)

    def look(table: str) -> str:
        together.wait()
        return table.upper()

    paths = [f"./lake/{number:02}" for number in range(AT_ONCE)]
    assert parallel_map(paths, look) == {path: path.upper() for path in paths}


def test_names_in_a_catalog_are_asked_for_by_the_caller() -> None:
    tables = ["./lake/b", "main.a", "./lake/a", "main.b"]
    threads = parallel_map(tables, lambda _: threading.current_thread())
    assert list(threads) == tables
    assert {name for name, thread in threads.items() if thread is threading.current_thread()} == {"main.a", "main.b"}


def test_of_several_errors_the_first_table_s_is_raised() -> None:
    def look(table: str) -> None:
        if table != "./fine":
            raise LookupError(table)

    with pytest.raises(LookupError, match=r"\./second"):
        parallel_map(["./fine", "./second", "./third"], look)
    with pytest.raises(LookupError, match="only"):
        parallel_map(["./only"], look)
