"""The steps of a run at which tests of exactly once end or suspend it."""

from __future__ import annotations


def steps_of(*tables: str) -> tuple[str, ...]:
    """All steps of a run into these tables, in their order."""
    return (
        "lease:before",
        "lease:after",
        "plan:before",
        "plan:after",
        *(f"land:{table}:{what}" for table in tables for what in ("before", "committed", "after")),
        "account:before",
        "account:after",
        "commit:before",
        "commit:after",
        "finish:before",
        "finish:after",
    )


STEPS = steps_of("first", "rest")
"""All steps of a run, in their order. `committed`: the table has the commit, and the ledger does not know of it;
`commit:after`: the group has its offsets, and the ledger does not know of it."""

FILE_STEPS = (
    "lease:before",
    "lease:after",
    "plan:before",
    "plan:after",
    "land:first:before",
    "land:first:committed",
    "land:first:after",
    "account:before",
    "account:after",
    "finish:before",
    "finish:after",
)
"""Those of a run of files alone, and of a backfill from files, into one table: it commits no offsets of a group."""

FEW_FILE_STEPS = ("plan:after", "land:first:committed", "account:before", "finish:after")
"""Of those, in the reduced scale: nothing has landed, the table alone knows, the ledger knows too, all is done."""
