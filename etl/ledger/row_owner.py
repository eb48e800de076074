"""Whose rows a table's rows are, by the run that landed them: those of other jobs, ledgers and sources stay.

    `_kseg_run`                               its rows are the source's own
    ----------------------------------------  ------------------------------------------------------------------------
    has the mark of this job                  at offsets whose records are the same today (`JobState.current_below`)
    of a run that this ledger or an adopted   the same; of an adopted ledger, where its topic is this one
    one knows, or with its mark
    has another mark                          never
    32 hex digits, of no run that is known    where no other job has landed rows of this topic in the table; else it is
                                              their owner is unknown: an error, until `--adopt` names the ledger
    anything else, null                       never: no run landed them

An older ledger that is adopted says what its runs read. Releases up to 0.1 gave ids without a mark, and a ledger drops
the details of incremental runs that ended long ago; their rows are the third case.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import NO_END, JobState
from kseg.etl.ledger.values import TopicIdentity

_UNMARKED: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a job's source in one table.

    ours: the job's state. topics: as the run that replaces them has pinned them. adopted: jobs of older ledgers whose
    rows count as this source's, where they read the same topic. others: which further jobs have landed rows in the
    table, by the topics that they know; None: not known. all_generations: rows that were landed before the job's
    offsets were reopened count as well.
    """

    table: str
    ours: JobState
    topics: Mapping[str, TopicIdentity]
    adopted: tuple[JobState, ...] = ()
    others: Mapping[str, Collection[str] | None] = field(default_factory=dict)
    all_generations: bool = False

    def owned_below(self, run_id: str | None, tp: TopicPartition) -> int:
        """As `RowOwner.owned_below`."""
        if run_id is None:
            return 0
        parts = parse_run_id(run_id)
        for state in (self.ours, *self.adopted):
            known = state.runs.get(run_id)
            if known is not None or (parts is not None and parts.mark == mark_of(state.ledger_id, state.job)):
                # The details of runs before the first accepted change of a source may have been dropped.
                generation = state.generation_of(known, tp) if known is not None else 0
                return self._current_below(state, tp, generation) if self._same_source(state, tp) else 0
        if parts is not None or not _UNMARKED.fullmatch(run_id):
            return 0
        self._refuse_unknown(run_id, tp)
        return min(
            (self._current_below(state, tp, 0) for state in (self.ours, *self.adopted) if tp.topic in state.topics),
            default=NO_END,
        )

    def owns_all(self, lowest: str, highest: str, tp: TopicPartition) -> bool:
        """As `RowOwner.owns_all`: all ids between two with the same mark have that mark."""
        low, high = parse_run_id(lowest), parse_run_id(highest)
        if low is None or high is None or low.mark != high.mark or self.ours.generation(tp):
            return False
        return low.mark == mark_of(self.ours.ledger_id, self.ours.job)

    def _current_below(self, state: JobState, tp: TopicPartition, generation: int) -> int:
        if self.all_generations:
            return NO_END
        below = state.current_below(tp, generation)
        # An older ledger's runs came before all changes that this one has accepted, and it does not know of these.
        return below if state is self.ours else min(below, self.ours.current_below(tp, 0))

    def _same_source(self, state: JobState, tp: TopicPartition) -> bool:
        if state is self.ours:
            return True
        known, read = state.topics.get(tp.topic), self.topics.get(tp.topic)
        if known is None or read is None:
            return False
        pairs = (known.cluster_id, read.cluster_id), (known.topic_id, read.topic_id)
        return all(theirs is None or here is None or theirs == here for theirs, here in pairs)

    def _refuse_unknown(self, run_id: str, tp: TopicPartition) -> None:
        unknown = [job for job, topics in self.others.items() if topics is None or tp.topic in topics]
        foreign = [
            f"{state.job} of ledger {state.ledger_id}"
            for state in self.adopted
            if tp.topic in state.topics and not self._same_source(state, tp)
        ]
        if not unknown and not foreign:
            return
        raise Refused(
            "rows-of-unknown-run",
            f"rows to be replaced are of run {run_id}, which neither this job's ledger nor an adopted one knows; "
            f"they may be those of {(unknown + foreign)[0]}, which has landed rows in this table too",
            remedy="name the run's ledger with --adopt LEDGER (repeatable): rows of its runs are replaced if they "
            "are of the same topic, and stay otherwise",
            table=self.table,
            topic=tp.topic,
            partition=tp.partition,
            run=run_id,
        )
