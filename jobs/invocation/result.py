"""The value that a command's function returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from kseg.jobs.output.redaction import REDACTOR

_BY_COLUMN: Final = ("nulls", "before")


class Report(Protocol):
    """The value that an operation of `kseg.etl` returns."""

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True)
class Result:
    """A command's result: the document that --json prints, the line above the tables, and the exit code.

    rows: how many rows of a table are shown to people. people: what they are shown in the document's place.
    """

    document: dict[str, Any]
    headline: str
    exit_code: int = 0
    rows: int = 50
    people: Mapping[str, Any] | None = None

    def masked(self) -> Result:
        """The same without the secrets of this process: a ledger's notes may quote errors of Spark or a store."""
        document, people = REDACTOR.clean(self.document), REDACTOR.clean(self.people)
        return replace(self, document=document, headline=REDACTOR.clean(self.headline), people=people)


def run_result(report: Report) -> Result:
    """A run's report with the line that sums it up."""
    document = report.to_json()
    if document.get("status") == "dry-run":
        return planned_result(document)
    counts, tables = document.get("counts", {}), document.get("tables", [])
    headline = f"{document.get('job')}: {document.get('status')}"
    if document.get("status") == "done":
        rows = sum(table.get("rows") or 0 for table in tables)
        headline += f", {counts.get('records', 0)} records read, {rows} rows landed in {len(tables)} table(s)"
    if "runs" in document:
        headline += f", in {len(document['runs'])} run(s)"
    if document.get("unread"):
        headline += f"; {document['unread']} offsets left to later runs"
    return Result(document, headline, people=_without_columns(document))


def planned_result(document: dict[str, Any]) -> Result:
    """A plan's report: of what a run counts, people see only the offsets, since nothing has been read."""
    ranges = document.get("ranges", [])
    offsets = sum(planned["end"] - planned["start"] for planned in ranges)
    headline = f"{document.get('job')}: {offsets} offsets in {len(ranges)} range(s) to read"
    if document.get("unread"):
        headline += f"; {document['unread']} offsets left to later runs"
    people = {name: value for name, value in document.items() if name not in ("status", "counts")}
    return Result(document, headline, people=people if document.get("status") == "dry-run" else None)


def _without_columns(document: Mapping[str, Any]) -> dict[str, Any]:
    """Counts by column are in --json and on the run's page; notes name what matters of them."""
    tables = [
        {name: value for name, value in one.items() if name not in _BY_COLUMN} for one in document.get("tables", [])
    ]
    return {**document, "tables": tables}
