"""The steps of a run at which tests of exactly once end or suspend it."""

from __future__ import annotations

STEPS = (
    "lease:before",
    "lease:after",
    "plan:before",
    "plan:after",
    "land:first:before",
    "land:first:committed",
    "land:first:after",
    "land:rest:before",
    "land:rest:committed",
    "land:rest:after",
    "account:before",
    "account:after",
    "commit:before",
    "commit:after",
    "finish:before",
    "finish:after",
)
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
