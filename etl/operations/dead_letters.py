"""A job's dead letters, read from their tables: their number by state, and the addresses at which they replace rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import listed
from kseg.etl.ledger.dead_letters import ADDRESS, Letter, LetterStates, letters_of
from kseg.etl.ledger.expired_letters import has_expired
from kseg.etl.ledger.ranges import EMPTY, OffsetSet
from kseg.etl.ledger.state import JobState
from kseg.etl.operations.landings import TableLandings
from kseg.etl.run.context import JobContext


def dead_letter_tables(context: JobContext, state: JobState) -> tuple[str, ...]:
    """The dead-letter tables of the job file and of all runs: the job file may have changed since a run."""
    named = [context.job.dead_letters, *(run.plan.dead_letters for run in state.runs.values())]
    return tuple(dict.fromkeys(table for table in named if table is not None))


def dead_letter_counts(context: JobContext, state: JobState) -> dict[str, int]:
    """Number of dead letters by state (`etl.ledger.dead_letters`); empty if the job has none."""
    return DeadLetters.read(context, state).counts


class DeadLetters:
    """The dead letters of a job; those of other jobs in the same tables are ignored."""

    def __init__(self, by_table: Mapping[str, Iterable[Letter]], state: JobState) -> None:
        """by_table: the dead letters in each existing dead-letter table that the job has or had."""
        self._state = state
        states = LetterStates(state)
        self._by_table: dict[str, Counter[str]] = {}
        self._expired = Counter(one.run_id for one in states.expired() if not states.is_of_lost(one.run_id))
        by_run: dict[str, list[Letter]] = {}
        open_ones: list[Letter] = []
        of_lost: list[Letter] = []
        counts: Counter[str] = Counter()
        for table, letters in (*by_table.items(), (None, states.expired())):
            for letter in letters:
                gone = has_expired(state.expired_letters, letter.run_id, letter.tp, letter.offset)
                if (now := states.of(letter)) == "other" or gone != (table is None):
                    continue  # an expired letter that is not deleted yet is counted once, as expired
                counts[now] += 1
                if states.is_of_lost(letter.run_id):  # whatever became of it since: a row of it may be older
                    of_lost.append(letter)
                    continue
                by_run.setdefault(letter.run_id, []).append(letter)
                if table is not None:
                    self._by_table.setdefault(table, Counter())[letter.run_id] += 1
                if now in ("open", "expired"):
                    open_ones.append(letter)
        self.counts: dict[str, int] = dict(sorted(counts.items()))
        self._by_run = {run_id: addresses_of(of_run) for run_id, of_run in by_run.items()}
        self._open, self._of_lost = addresses_of(open_ones), addresses_of(of_lost)

    @classmethod
    def read(cls, context: JobContext, state: JobState) -> DeadLetters:
        """Read all existing dead-letter tables that the job has or had."""
        by_table: dict[str, list[Letter]] = {}
        for table in dead_letter_tables(context, state):
            access = context.targets.access(table)
            rows = access.read(ADDRESS, {}) if access is not None else None
            if rows is not None:
                by_table[table] = letters_of(rows[name].to_pylist() for name in ADDRESS)
        return cls(by_table, state)

    @property
    def excusable(self) -> bool:
        """Whether the addresses without a row are all known, but for those of lost ledgers: the tables have as many
        dead letters as the runs wrote."""
        number = sum((of_table for of_table in self._by_table.values()), self._expired)
        runs = [run for run in self._state.runs.values() if run.accounted is not None and not run.abandoned]
        left_out = {r.run_id: r.accounted.rows_in - r.accounted.rows_out for r in runs if r.accounted is not None}
        archive = self._state.archive
        of_dropped = sum(count for run_id, count in number.items() if run_id not in self._state.runs)
        return (
            all(count == number[run_id] for run_id, count in left_out.items())
            and archive.rows_in - archive.rows_out == of_dropped
        )

    def notes(self, table: str | None) -> list[str]:
        """Notes for `kseg verify`: the number of dead letters, and how many that the ledger counted are missing.

        table: the dead-letter table in the job file.
        """
        notes = []
        if self.counts:
            counted = ", ".join(f"{number} {name}" for name, number in self.counts.items())
            notes.append(f"dead letters: {counted}; where one is open or expired, no row is due")
        gone: dict[str, dict[str, int]] = {}
        before: Counter[str] = Counter()
        for run in self._state.runs.values():
            decoding = run.accounted.counts.decoding if run.accounted is not None and not run.abandoned else None
            of_run = run.plan.dead_letters or table
            if decoding is None or of_run is None:
                continue
            there = self._by_table.get(of_run, Counter())[run.run_id] + self._expired[run.run_id]
            missing = decoding.dead - there
            if missing > 0:
                gone.setdefault(of_run, {})[run.run_id] = missing
            if of_run != table:
                before[of_run] += decoding.dead
        notes += [
            f"{number} dead letters were committed to {path}, which the job file does not name any more: "
            "`kseg redrive` does not find them"
            for path, number in before.items()
            if number
        ]
        for path, by_run in gone.items():
            runs = listed((f"run {run_id}: {number}" for run_id, number in by_run.items()), most=3)
            notes.append(f"{sum(by_run.values())} dead letters are not in {path} any more ({runs})")
        return notes

    def excused(self, landed: TableLandings) -> dict[TopicPartition, OffsetSet]:
        """Subtract the dead letters from what runs have landed in a table (this changes `landed`); at those of a lost
        ledger a row may be there or not. Returns the compared addresses at which no row is due: open or expired dead
        letters that no other run has landed."""
        for by_run in (landed.standing, landed.kept):
            for run_id, partitions in by_run.items():
                for tp, letters in self._by_run.get(run_id, {}).items():
                    if tp in partitions:
                        partitions[tp] = partitions[tp].subtract(letters)
        for tp, letters in self._of_lost.items():
            if found := letters.intersect(landed.older.get(tp, EMPTY)):
                landed.doubtful[tp] = landed.doubtful.get(tp, EMPTY).union(found)
        absent: dict[TopicPartition, OffsetSet] = {}
        for tp, letters in self._open.items():
            due = OffsetSet.of(
                interval
                for by_run in (landed.standing, landed.kept)
                for partitions in by_run.values()
                for interval in partitions.get(tp, EMPTY)
            )
            if found := letters.intersect(landed.compared.get(tp, EMPTY)).subtract(due):
                absent[tp] = found
                if tp in landed.older:
                    landed.older[tp] = landed.older[tp].subtract(found)
        return absent


def addresses_of(letters: Iterable[Letter]) -> dict[TopicPartition, OffsetSet]:
    """The letters' offsets by partition."""
    offsets: dict[TopicPartition, list[tuple[int, int]]] = {}
    for letter in letters:
        offsets.setdefault(letter.tp, []).append((letter.offset, letter.offset + 1))
    return {tp: OffsetSet.of(of_one) for tp, of_one in offsets.items()}
