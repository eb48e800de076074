"""The modes of runs: a new one is a module of `etl/dispositions`, and an entry here.

An entry has what the ledger, planning and the command line have to know of a mode. How its rows relate to those of the
tables is decided by its disposition, which is loaded when a run is first asked for it (`etl.dispositions.registry`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Mode = Literal["incremental", "interval", "backfill-missing", "backfill-replace", "backfill-append", "redrive"]
"""Names of modes in plans and commits."""

BackfillMode = Literal["missing", "replace", "append"]
"""What `kseg backfill --mode` may be; `missing` is the default."""

LandedAgain = Literal["redriven", "replaced", "appended"]
"""States of dead letters whose offsets a run of such a mode has read again (`etl.ledger.dead_letters`)."""


@dataclass(frozen=True, slots=True)
class RunMode:
    """A mode of runs. disposition: `module:class` in `etl.dispositions`.

    lands_once: no offset is planned that has landed. replaces: commits remove the rows of earlier runs at offsets that
    the run has read. letters: the state of earlier runs' dead letters at such offsets; None: the mode reads none again.

    Of backfills: by: the value of `--mode`; None: other commands plan such runs. words: for the help of that option.
    labelled: a label says which time it is: a request needs one, and is never done again by itself. taken_up: an
    unfinished run is continued by a request with another label, since no other run can plan its offsets.
    """

    name: Mode
    disposition: str
    lands_once: bool = False
    replaces: bool = False
    letters: LandedAgain | None = None
    by: BackfillMode | None = None
    words: str = ""
    labelled: bool = False
    taken_up: bool = False


_APPEND: Final = "append:Append"

_ALL: Final = (
    RunMode("incremental", _APPEND, lands_once=True),
    RunMode("interval", _APPEND, lands_once=True),
    RunMode("redrive", _APPEND, letters="redriven"),
    RunMode("backfill-missing", _APPEND, lands_once=True, by="missing", words="land what has not landed"),
    RunMode(
        "backfill-replace",
        "replace:Replace",
        replaces=True,
        letters="replaced",
        by="replace",
        words="remove the rows of these addresses and add the new ones in one commit",
        taken_up=True,
    ),
    RunMode(
        "backfill-append",
        "append:AppendAgain",
        letters="appended",
        by="append",
        words="land the offsets again, with a --label",
        labelled=True,
    ),
)

MODES: Final[Mapping[str, RunMode]] = {mode.name: mode for mode in _ALL}
"""By the name that plans have."""

BACKFILLS: Final[Mapping[str, RunMode]] = {mode.by: mode for mode in _ALL if mode.by is not None}
"""By the value of `--mode`, in the order of its help."""
