"""Which rows of a table belong to a job's source, by the run that landed them. A replacement keeps all other rows.

    `_kseg_run`                               when its rows belong to the source
    ----------------------------------------  ------------------------------------------------------------------------
    has the mark of this job, also in a lost  at offsets that still have the same records (`JobState.current_below`)
    ledger that this one replaces
    a run of this ledger or an adopted one,   the same; for an adopted ledger, only if its topic is this one
    or with the mark of an adopted one
    has another mark                          never
    32 hex digits, of an unknown run          if no other job has landed rows of this topic in the table; otherwise an
                                              error, until `--adopt` names the run's ledger
    anything else, null                       never: no run landed them

An adopted older ledger shows what its runs have read. Releases up to 0.1 gave ids without a mark, and a ledger drops
the details of incremental runs that ended long ago: these are the unknown runs of the fourth line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger.generations import generation_of_lost, generation_read, is_of_lost
from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import NO_END, JobState
from kseg.etl.ledger.values import TopicIdentity

_UNMARKED: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class SourceRows:
    """The rows of a job's source in one table.

    ours: the job's state. topics: as pinned by the run that replaces the rows. adopted: jobs of older ledgers whose
    rows belong to this source if they read the same topic. others: by name of each other job that has landed rows in
    the table, its topics; None: not known. all_generations: whether rows that were landed before offsets were reopened
    count as well.
    """

    table: str
    ours: JobState
    topics: Mapping[str, TopicIdentity]
    adopted: tuple[JobState, ...] = ()
    others: Mapping[str, Collection[str] | None] = field(default_factory=dict)
    all_generations: bool = False

    def owned_below(self, run_id: str | None, tp: TopicPartition) -> int:
        """The condition of `RowOwner.owned_below`."""
        if run_id is None:
            return 0
        if is_of_lost(self.ours, run_id):
            return self._of_lost_below(run_id, tp)
        parts = parse_run_id(run_id)
        for state in (self.ours, *self.adopted):
            known = state.runs.get(run_id)
            if known is not None or (parts is not None and parts.mark == mark_of(state.ledger_id, state.job)):
                generation = generation_read(state, run_id, tp)
                return self._current_below(state, tp, generation) if self._same_source(state, tp) else 0
        if parts is not None or not _UNMARKED.fullmatch(run_id):
            return 0
        self._refuse_unknown(run_id, tp)
        return min(
            (self._current_below(state, tp, 0) for state in (self.ours, *self.adopted) if tp.topic in state.topics),
            default=NO_END,
        )

    def owns_all(self, lowest: str, highest: str, tp: TopicPartition) -> bool:
        """The condition of `RowOwner.owns_all`: all ids between two with the same mark have that mark."""
        low, high = parse_run_id(lowest), parse_run_id(highest)
        if low is None or high is None or low.mark != high.mark or self.ours.generation(tp):
            return False
        return low.mark == mark_of(self.ours.ledger_id, self.ours.job)

    def _current_below(self, state: JobState, tp: TopicPartition, generation: int) -> int:
        if self.all_generations:
            return NO_END
        below = state.current_below(tp, generation)
        # Runs of an older ledger were before all changes that this ledger has accepted, which that one does not have.
        return below if state is self.ours else min(below, self.ours.current_below(tp, 0))

    def _of_lost_below(self, run_id: str, tp: TopicPartition) -> int:
        if self.all_generations:
            return NO_END
        generation = generation_of_lost(self.ours, run_id, tp)
        if generation is None:
            raise Refused.of(
                "rows-of-unknown-run",
                case="generation",
                table=self.table,
                topic=tp.topic,
                partition=tp.partition,
                run=run_id,
            )
        return self.ours.current_below(tp, generation)

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
        raise Refused.of(
            "rows-of-unknown-run",
            {"owner": (unknown + foreign)[0]},
            case="replacement",
            table=self.table,
            topic=tp.topic,
            partition=tp.partition,
            run=run_id,
        )
