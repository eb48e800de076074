"""The generations that runs of lost ledgers have read: their rows are in the tables, and their plans are gone."""

from __future__ import annotations

from dataclasses import dataclass, field

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.json_form import Strict
from kseg.etl.ledger.run_ids import parse_run_id
from kseg.etl.ledger.values import ByPartition


@dataclass(frozen=True, slots=True)
class LostRuns(Strict):
    """What the tables' histories said of these runs when the ledger was rebuilt.

    newest: the newest generation of each partition that runs of several generations have read. first: by mark, the
    number of the first incremental run of that generation. older: runs without a number (backfills, intervals) that
    have read an earlier one.
    """

    newest: ByPartition[int] = field(default_factory=dict)
    first: dict[str, ByPartition[int]] = field(default_factory=dict)
    older: ByPartition[tuple[str, ...]] = field(default_factory=dict)

    def generation(self, run_id: str, tp: TopicPartition) -> int:
        """The partition's generation that a run has read: the newest one, or 0 for any earlier one.

        A rebuilt ledger knows where the newest generation begins, and nothing of those before it. A run without a
        number that no history shows counts as one of the newest, as when the rows were read.
        """
        parts = parse_run_id(run_id)
        if parts is None or run_id in self.older.get(tp, ()):
            return 0
        if parts.number is not None and parts.number < self.first.get(parts.mark, {}).get(tp, 0):
            return 0
        return self.newest.get(tp, 0)
