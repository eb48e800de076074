"""The verdict of `kseg verify` on an address: the ledger's claims, the rules, the findings and their texts.

Both comparisons use these rules: in Spark (`spark_comparison`) and without (`driver_comparison`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple

from kseg.etl.operations.landings import Status, TableLandings

MAX_FINDINGS: Final = 100

Kind = Literal["gap", "duplicate", "mismatch", "stranger", "count", "file"]
Compared = Literal["rows", "decoded", "addresses", "counts"]

STANDING, KEPT, REPLACED, OLDER, FOREIGN, NOT_COMPARED = range(6)
"""The ledger's claims on a row, in this order: its run landed it; its run landed it, and a later replacement could not
read the offset again; a later run has replaced it; a run that a summary has dropped may have landed it; no run landed
it; it is of an earlier generation of the partition, or of another job."""

CLAIMS: Final[dict[Status, int]] = {
    "standing": STANDING,
    "kept": KEPT,
    "replaced": REPLACED,
    "superseded": NOT_COMPARED,
}

TEXTS: Final[dict[tuple[Kind, str], str]] = {
    ("gap", ""): "the record is in Kafka and not in the table",
    ("gap", "copies"): "several runs have landed the record, and the row of one is not in the table",
    ("stranger", ""): "the row is in the table, and the record is not in Kafka",
    ("stranger", "route"): "the row is in the table, and no record that is routed there has its address",
    ("stranger", "run"): "the row is of run {run}, which by the ledger has not landed this offset",
    ("duplicate", ""): "the row is in the table more than once for one run",
    ("duplicate", "replaced"): "the row of an earlier run is still there, and that of the run which replaced it too",
    ("duplicate", "older"): "the row is in the table more than once; its runs are older than the ledger's summary",
    ("mismatch", ""): "the row differs from the record in Kafka",
}

ABSENT: Final = "absent"
"""Why nothing is wrong with an address that has no row, and needs none."""

NO_RUN: Final = "(none)"
"""In place of the run id, in the text about a row without one."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. offset is None where it is about a whole table.

    gap: in Kafka, not in the table. duplicate: more than once in the table for one run, or of a run that was replaced.
    mismatch: other contents than in Kafka. stranger: in the table, but Kafka has no readable record at that offset, or
    no run of this job has landed it. count: rows and ledger differ. file: a data file of the table is not in the store.
    """

    kind: Kind
    table: str
    topic: str | None
    partition: int | None
    offset: int | None
    message: str


@dataclass(slots=True)
class Found:
    """The findings of one table's comparison. total: their number. findings: the first hundred of each kind."""

    total: int = 0
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class FoundAt(NamedTuple):
    """An address of a group. foreign: the run id of a row there that, by the ledger, this run has not landed."""

    topic: str
    partition: int
    offset: int
    foreign: str | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Addresses with one verdict. kind: None if nothing is wrong. exact: whether whole rows were compared, and not only
    addresses. topic: of rows without a record; else None. rows: the number of addresses. first: the first of them, if
    something is wrong."""

    kind: Kind | None
    why: str
    exact: bool | None
    topic: str | None
    rows: int
    first: Sequence[FoundAt]


class Rule(NamedTuple):
    """holds: whether it applies to each address, a column of Spark or NumPy. kind: None if nothing is wrong."""

    holds: Any
    kind: Kind | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """Observations at each address, as columns of Spark or NumPy: both support the operators in `rules`.

    in_kafka: whether a row is due. foreign: whether there is a row that its run has not landed. times: the largest
    number of rows of one run. standing, kept, replaced, older: the number of runs whose rows have this claim; standing
    includes kept and older. copies: the number of runs whose rows are due; 0 where a row may be there or not. differs:
    whether a standing row equals none of the rows that are due.
    """

    in_kafka: Any
    foreign: Any
    times: Any
    standing: Any
    kept: Any
    replaced: Any
    older: Any
    copies: Any
    differs: Any


def rules(seen: Seen, *, older_once: bool) -> list[Rule]:
    """The rules in their order: the first that holds decides on an address. If none holds, nothing is wrong.

    older_once: whether an offset has one row of the runs that are older than the ledger's summary.
    """
    found = [
        Rule(seen.foreign, "stranger", "run"),
        Rule(seen.times > 1, "duplicate"),
        Rule(~seen.in_kafka & (seen.standing > seen.kept), "stranger"),
        Rule(~seen.in_kafka, None),
        Rule((seen.standing == 0) & (seen.copies > 0), "gap"),
        Rule(seen.standing < seen.copies, "gap", "copies"),
        Rule(seen.replaced > 0, "duplicate", "replaced"),
    ]
    if older_once:
        found.append(Rule(seen.older > 1, "duplicate", "older"))
    absent = Rule((seen.standing == 0) & (seen.copies == 0), None, ABSENT)
    return [*found, absent, Rule(seen.differs, "mismatch")]


def older_claims(landed: TableLandings) -> list[tuple[str, int, int, int, int]]:
    """Topic, partition, start, end and claim of the ranges whose runs are no longer known."""
    return [
        (tp.topic, tp.partition, *interval, claim)
        for claim, partitions in (
            (OLDER, landed.older),
            (REPLACED, landed.older_replaced),
            (NOT_COMPARED, landed.older_superseded),
        )
        for tp, offsets in partitions.items()
        for interval in offsets
    ]


def lacks_record(kind: str | None, why: str) -> bool:
    """Whether the verdict is that no record due in the table has the row's address."""
    return kind == "stranger" and not why
