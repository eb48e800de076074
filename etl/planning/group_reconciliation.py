"""The consumer group's offsets compared with the ledger: expired, changed by another client, or a ledger too old.

    found in the group                         means                                        answer
    -----------------------------------------  -------------------------------------------  ------------------------
    -1                                         expired, or never committed                  go on
    the frontier, or what we last committed    as left                                      go on
    other, `kseg:<this ledger>:…`, below       a run landed and died before its commit      go on
    other, `kseg:<this ledger>:…`, above       by a run that the ledger knows: rows of it,  go on
                                               or of a backfill, were abandoned since
                                               else the ledger is older than the group      refused
    no base yet, `kseg:<another ledger>:…`     the ledger was lost                          refused until accepted
    `kseg:<this ledger>:…` by another job      two jobs share a group, or one was renamed   refused until accepted
    anything else                              another client committed                     refused until accepted

The frontier is where the ledger says the next run starts. Metadata is the string that a commit carries.

An offset of another client from which a run starts has the leader epoch of the last record that was read. If this epoch
ended below the offset, the log was truncated, and there are other records at the offsets in between: refused (KIP-320).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from kseg.client.groups.offsets import CommittedOffset
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused, listed
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.run_ids import mark_of, parse_run_id
from kseg.etl.ledger.state import JobState
from kseg.etl.planning.epoch_ends import EpochEnds, LeaderEpoch, truncated_at


def commit_metadata(ledger_id: str, run_id: str) -> str:
    """The metadata of our commits, which distinguishes them from other clients'."""
    return f"kseg:{ledger_id}:{run_id}"


def ledger_of(metadata: str | None) -> str | None:
    """The ledger that a commit came from; None where it is not the framework's own."""
    parts = (metadata or "").split(":")
    return parts[1] if len(parts) == 3 and parts[0] == "kseg" else None


Origin = Literal["this job", "another job", "another ledger", "another client"]
"""The author of a committed offset. Another job: of the same ledger."""


def origin_of(metadata: str | None, state: JobState) -> Origin:
    """The author of an offset with this metadata. Run ids without a mark count as this job's (`ledger.run_ids`)."""
    ledger = ledger_of(metadata)
    if ledger != state.ledger_id:
        return "another client" if ledger is None else "another ledger"
    run = parse_run_id((metadata or "").rpartition(":")[2])
    return "this job" if run is None or run.mark == mark_of(state.ledger_id, state.job) else "another job"


@dataclass(frozen=True, slots=True)
class GroupView:
    """The group's committed offsets.

    watched: this job commits them, so a change by another client is refused; otherwise they only determine where to
    start. accept: the user accepts them as they are.
    """

    group: str
    offsets: Mapping[TopicPartition, CommittedOffset]
    watched: bool = True
    accept: bool = False

    def has(self, tp: TopicPartition) -> bool:
        found = self.offsets.get(tp)
        return found is not None and found.offset >= 0


def committed_epochs(view: GroupView, state: JobState) -> Iterator[LeaderEpoch]:
    """The leader epochs of the offsets from which a plan may start: those that this ledger has not committed itself."""
    for tp, found in view.offsets.items():
        ours = origin_of(found.metadata, state) == "this job"
        if found.offset >= 0 <= found.leader_epoch and not ours and (view.watched or tp not in state.bases):
            yield LeaderEpoch(tp, found.leader_epoch)


def check_committed_epoch(group: str, tp: TopicPartition, found: CommittedOffset, ends: EpochEnds) -> None:
    """Raises Refused: `log-truncated`; the leader epoch of a committed offset ended below it."""
    end = truncated_at(ends, tp, found.leader_epoch, found.offset)
    if end is not None:
        raise Refused.of(
            "log-truncated",
            {"group": group, "committed": found.offset, "epoch": found.leader_epoch},
            case="group",
            topic=tp.topic,
            partition=tp.partition,
            offset=end,
        )


def reconcile(view: GroupView, state: JobState, ends: EpochEnds, *, moves_offsets: bool) -> list[ev.Event]:
    """The events that accepted offsets make; none where group and ledger agree.

    ends: the ends of `committed_epochs`.
    moves_offsets: the run will commit the group's offsets. For one that will not, offsets that another client has
    changed do not matter; a lost or outdated ledger does.

    Raises:
        Refused: `ledger-older` or `group-offsets-differ`, naming every partition that differs; `log-truncated` for
            an accepted offset.
    """
    differing: dict[TopicPartition, CommittedOffset] = {}
    for tp, found in sorted(view.offsets.items()) if view.watched else ():
        frontier = state.frontier(tp)
        standing = standing_of(view.group, tp, found, state)
        if standing == "ledger older":
            raise _ledger_is_older(view.group, tp, found.offset, frontier)
        # Where a base is yet to be pinned, an offset of another ledger or job decides where rows of this job begin.
        if standing == "changed" and (moves_offsets or frontier is None):
            differing[tp] = found
    if not differing:
        return []
    if not view.accept:
        raise _differs(view.group, differing, state)
    for tp, found in differing.items():
        check_committed_epoch(view.group, tp, found, ends)
    return _accepted(view.group, differing, state)


Standing = Literal["as left", "ledger older", "changed"]


def standing_of(group: str, tp: TopicPartition, found: CommittedOffset, state: JobState) -> Standing:
    """Decides what a committed offset means, by the table above: go on, the ledger is older than the group, or another
    client (job, ledger) has changed it."""
    frontier, origin = state.frontier(tp), origin_of(found.metadata, state)
    if found.offset < 0 or found.offset == frontier:
        return "as left"
    if origin == "this job":
        above = frontier is None or found.offset > frontier
        return "ledger older" if above and not _known(group, tp, found, state) else "as left"
    if frontier is None:
        return "as left" if origin == "another client" else "changed"
    known = state.group_offsets(group).get(tp)
    accepted = known is not None and (known.offset, known.metadata) == (found.offset, found.metadata or "")
    return "as left" if accepted else "changed"


def _known(group: str, tp: TopicPartition, found: CommittedOffset, state: JobState) -> bool:
    """Whether the commit is above the frontier only because the frontier has moved back since, as the ledger
    records.
    """
    known = state.group_offsets(group).get(tp)
    if known is not None and (known.offset, known.metadata) == (found.offset, found.metadata):
        return True
    return (found.metadata or "").rpartition(":")[2] in state.runs


def _accepted(group: str, differing: Mapping[TopicPartition, CommittedOffset], state: JobState) -> list[ev.Event]:
    given_up: list[OffsetRange] = []
    reclaimed: list[OffsetRange] = []
    bases: dict[TopicPartition, int] = {}
    for tp, found in differing.items():
        frontier = state.frontier(tp)
        if frontier is None:
            continue  # its base is pinned at the group's offset, as for any first run
        if found.offset > frontier:
            given_up += state.covered(tp).missing_in(frontier, found.offset).ranges(tp)
            continue
        reclaimed += state.given_up(tp).intersect(OffsetSet.single(found.offset, frontier)).ranges(tp)
        if found.offset < state.bases[tp]:
            bases[tp] = found.offset
    offsets = {
        tp: ev.GroupOffset(found.offset, found.metadata or "", found.leader_epoch) for tp, found in differing.items()
    }
    events: list[ev.Event] = [ev.GroupOffsetsAccepted(group=group, offsets=offsets)]
    if bases:
        events.append(BasePinned(bases=bases, reason="accepted"))
    if given_up:
        events.append(ev.OffsetsGivenUp(ranges=tuple(given_up), reason="group-offsets-accepted"))
    if reclaimed:
        events.append(ev.OffsetsReclaimed(ranges=tuple(reclaimed), reason="the group's offset was set back"))
    return events


def _ledger_is_older(group: str, tp: TopicPartition, offset: int, frontier: int | None) -> Refused:
    values = {"group": group, "end": frontier}
    case = "end" if frontier is not None else "no offsets"
    return Refused.of("ledger-older", values, case=case, topic=tp.topic, partition=tp.partition, offset=offset)


def _differs(group: str, differing: Mapping[TopicPartition, CommittedOffset], state: JobState) -> Refused:
    origins = {tp: origin_of(found.metadata, state) for tp, found in differing.items()}
    lost = any(origin == "another ledger" and state.frontier(tp) is None for tp, origin in origins.items())
    ends = ((tp, found.offset, state.frontier(tp)) for tp, found in differing.items())
    each = (f"{tp.topic}-{tp.partition}: group {offset}, ledger {'-' if to is None else to}" for tp, offset, to in ends)
    values = {"group": group, "each": listed(each, most=20)}
    first = next(iter(differing))
    if lost:
        return Refused.of("ledger-lost", values, case="group", topic=first.topic, partition=first.partition)
    case = "another job" if "another job" in origins.values() else "another client"
    return Refused.of("group-offsets-differ", values, case=case, topic=first.topic, partition=first.partition)
