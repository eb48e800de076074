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
    number from which on incremental runs have read that generation. unnumbered: of the other runs (backfills,
    intervals), whether it was the newest one.
    """

    newest: ByPartition[int] = field(default_factory=dict)
    first: dict[str, ByPartition[int]] = field(default_factory=dict)
    unnumbered: dict[str, ByPartition[bool]] = field(default_factory=dict)

    def generation(self, run_id: str, tp: TopicPartition) -> int | None:
        """The partition's generation that a run has read: the newest one, or 0 for any earlier one.

        A rebuilt ledger knows where the newest generation begins, and nothing of those before it. None: the histories
        did not show it.
        """
        if tp not in self.newest:
            return 0
        parts = parse_run_id(run_id)
        if parts is None:
            return 0
        if parts.number is None:
            is_newest = self.unnumbered.get(run_id, {}).get(tp)
        else:
            first = self.first.get(parts.mark, {}).get(tp)
            is_newest = None if first is None else parts.number >= first
        return None if is_newest is None else self.newest[tp] if is_newest else 0
