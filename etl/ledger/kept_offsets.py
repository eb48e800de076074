"""The offsets whose rows a replacement has kept. Before its first commit, each attempt records the offsets that it
could not read (`replacing`). Which rows stay in a table depends only on the attempt whose commit landed there.

The commit contains a digest of the kept offsets, and so does the ledger's record of the commit. If no digest is known
(a commit of an older release, or one that log cleanup has removed), the commit of any attempt may have landed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.ledger.ranges import EMPTY, OffsetSet, offsets_of
from kseg.etl.ledger.state import RunState
from kseg.etl.ledger.values import RunPlan

DIGEST_LENGTH: Final = 16
"""Number of hex digits: enough to distinguish the attempts of one run."""


def kept_digest(plan: RunPlan, table: str, kept: Mapping[TopicPartition, OffsetSet]) -> str:
    """The digest of the offsets that an attempt has kept in one of the plan's tables."""
    topics = _topics(plan, [table])
    text = json.dumps([[*tp, offsets.to_json()] for tp, offsets in sorted(kept.items()) if tp.topic in topics])
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]


def with_attempt(run: RunState, kept: Mapping[TopicPartition, OffsetSet]) -> RunState:
    """The run after an attempt has recorded what it keeps. Tables that have already landed are not affected."""
    decided = _topics(run.plan, run.landed)
    before = run.kept or {}
    by_all = {tp: offsets for tp, offsets in before.items() if tp.topic in decided}
    for tp, offsets in kept.items():
        if tp.topic not in decided:
            by_all[tp] = offsets if run.kept is None else offsets.intersect(before.get(tp, EMPTY))
    return replace(run, kept=by_all, attempts_kept=(*run.attempts_kept, dict(kept)))


def landed_with(run: RunState, digests: Mapping[str, str | None]) -> RunState:
    """The run with the offsets that were kept by the attempts whose commits landed. digests: by table."""
    for table, digest in digests.items():
        for kept in run.attempts_kept if digest is not None else ():
            if kept_digest(run.plan, table, kept) == digest:
                topics = _topics(run.plan, [table])
                others = {tp: offsets for tp, offsets in (run.kept or {}).items() if tp.topic not in topics}
                run = replace(run, kept=others | {tp: of_tp for tp, of_tp in kept.items() if tp.topic in topics})
                break
    return run


def gone_with(run: RunState, landed_in: Collection[str]) -> dict[TopicPartition, OffsetSet]:
    """The offsets that have no row any more once a run is abandoned. landed_in: tables that had a commit of the run.

    Offsets that other runs had landed before stay landed, unless this run had replaced their rows, which are then gone
    as well. No other run can have landed them since, because this run reserved its offsets.
    """
    gone = dict(run.added)
    if run.plan.replaces:
        replaced = {*run.landed, *landed_in}
        for tp, offsets in offsets_of(r for r in run.plan.ranges if r.table in replaced).items():
            taken = offsets.subtract((run.kept or {}).get(tp, EMPTY))
            gone[tp] = gone.get(tp, EMPTY).union(taken)
    return gone


def _topics(plan: RunPlan, tables: Collection[str]) -> set[str]:
    return {planned.topic for planned in plan.ranges if planned.table in tables}
