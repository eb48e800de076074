"""How many records of a run may have nulls in place of what cannot be decoded (`decode.max_nulled`).

Records are counted by the part of `decode:` that their topic is decoded by. Runs by the first rules of decoding have no
maximum (`etl.decoding.rules`); nor have redrives, whose records are all known not to be decodable as a whole: when they
became dead letters, `sink.dead_letters.max` limited them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from kseg.etl.config.decoding import Decode, sections_of
from kseg.etl.config.job import Job
from kseg.etl.config.sections import CATCH_ALL
from kseg.etl.decoding.bad_records import MAX_EXAMPLES
from kseg.etl.decoding.errors import TooManyNulled
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.dead_letters import REDRIVE
from kseg.etl.run.account import ReadCounts


def most_nulled(job: Job, plan: ev.RunPlan) -> int | None:
    """The maximum for a task that knows only its own records: the largest of all parts; None: there is none."""
    topics = {planned.topic for planned in plan.ranges}
    return max(
        (
            section.most_nulled.of(sum(planned.length for planned in plan.ranges if planned.topic in mine))
            for section, mine in _limited(job, plan, topics)
        ),
        default=None,
    )


def check_nulled(job: Job, plan: ev.RunPlan, reading: ReadCounts) -> None:
    """Raises TooManyNulled if records of one part of `decode:` have more nulls than it lets pass."""
    topics = {account.topic for account in reading.accounts}
    for section, mine in _limited(job, plan, topics):
        counts = [account.counts for account in reading.accounts if account.topic in mine]
        decoding = [of_range.decoding for of_range in counts if of_range.decoding is not None]
        most, nulled = section.most_nulled.of(sum(c.data for c in counts)), sum(d.nulled for d in decoding)
        if nulled > most:
            columns = sum((Counter(of_range.columns) for of_range in decoding), Counter())
            lines = chain.from_iterable(lines for topic, lines in reading.nulled_examples.items() if topic in mine)
            raise TooManyNulled(nulled, most, tuple(islice(lines, MAX_EXAMPLES)), plan.run_id, columns)


def _limited(job: Job, plan: ev.RunPlan, topics: Iterable[str]) -> Iterator[tuple[Decode, set[str]]]:
    """The parts of `decode:` with a maximum, and those of the topics that each is of."""
    limits = plan.rules.limits_nulled and plan.mode != REDRIVE
    sections = sections_of(job.decode) if job.decode is not None and limits else {}
    named = {path[1] for path in sections if len(path) > 1}
    for path, section in sections.items():
        mine = {t for t in topics if len(path) == 1 or t == path[1] or (path[1] == CATCH_ALL and t not in named)}
        if section.on_error == "set_null":
            yield section, mine
