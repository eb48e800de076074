"""The name by which a table is known that had several."""

from kseg.etl.ledger.table_names import current_names
from kseg.etl.ledger.values import TableState


def test_a_table_that_was_moved_is_known_by_the_name_of_its_newest_state() -> None:
    tables = {"/b": TableState("one", 3), "/a": TableState("one", 5), "/c": TableState("two", 1)}
    assert current_names(tables) == ["/a", "/c"]
    assert current_names(tables | {"/b": TableState("one", 7)}) == ["/b", "/c"]
    assert current_names(tables | {"/d": TableState("one", 5)}) == ["/c", "/d"], "moved, and no commit since"
