"""Which planned offsets keep their rows when rows are replaced: those that nothing was read at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.dispositions.replace import MOST_RANGES_IN_SQL, Replace, Replacement
from kseg.etl.errors import Refused
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.ranges import OffsetRange
from kseg.etl.planning.backfill_request import BackfillRequest
from kseg.etl.rows.names import OWN_ADDRESS
from kseg.etl.run.account import ReadCounts, account_for
from kseg.etl.source.range_result import RangeResult

TP = TopicPartition("orders", 0)


def plan(**options: Any) -> ev.RunPlan:
    request = BackfillRequest.parse(from_=["orders:0:0"], to=["orders:0:100"], mode="replace", **options)
    return ev.RunPlan(
        run_id="r",
        mode="backfill-replace",
        chain="r",
        app_id="kseg/l/j/r",
        app_version=1,
        config_hash="",
        pinned_config="{}",
        cluster_id=None,
        topics={},
        ranges=(ev.PlannedRange("orders", 0, 0, 100, table="t"),),
        tables={"t": None},
        asked=json.dumps(request.identity()),
    )


def ranges(*intervals: tuple[int, int]) -> tuple[OffsetRange, ...]:
    return tuple(OffsetRange("orders", 0, start, end) for start, end in intervals)


def after(plan: ev.RunPlan, **read: Any) -> Replacement:
    return Replace().decide(plan, ReadCounts((), read.pop("gaps", ()), read.pop("lost", ()), 0, **read), None)  # type: ignore[arg-type]


def test_offsets_that_hold_nothing_that_can_be_read_keep_their_rows() -> None:
    found = after(
        plan(), lost=ranges((0, 10)), gaps=ranges((20, 22)), damaged=ranges((95, 120)), compacted=ranges((30, 31))
    )
    assert list(found.kept[TP]) == [(0, 10), (20, 22), (30, 31), (95, 100)]
    [event] = found.events()
    assert isinstance(event, ev.Replacing)
    assert event.kept == found.kept


def test_rows_of_compacted_records_go_where_that_is_asked_for() -> None:
    found = after(plan(drop_compacted=True), gaps=ranges((20, 22)), compacted=ranges((30, 31)))
    assert list(found.kept[TP]) == [(20, 22)]


@pytest.mark.parametrize("missing", ["gaps_complete", "damage_complete"])
def test_a_list_that_was_cut_short_replaces_nothing(missing: str) -> None:
    with pytest.raises(Refused, match="cannot list all offsets"):
        after(plan(), **{missing: False})


def test_predicates_for_spark_have_an_end() -> None:
    gaps = ranges(*((n, n + 1) for n in range(1, 2 * MOST_RANGES_IN_SQL + 2, 2)))
    wide = plan()
    object.__setattr__(wide, "ranges", (ev.PlannedRange("orders", 0, 0, 10_000, table="t"),))
    with pytest.raises(Refused) as caught:
        after(wide, compacted=gaps).of("t", OWN_ADDRESS, by_sql=True)
    assert caught.value.code == "too-many-gaps"


def test_gaps_of_compacted_topics_are_told_from_others() -> None:
    class Logs:
        def compacted(self, topics: set[str]) -> frozenset[str]:
            return frozenset({"orders"})

    result = RangeResult(0, "orders", 0, 0, 100, data=98, absent=2, gaps=((4, 6),), gap_count=1)
    reading = account_for(plan(), [result], Logs())  # type: ignore[arg-type]
    assert (reading.gaps, reading.compacted, reading.gaps_complete) == ((), ranges((4, 6)), True)
    cut = RangeResult(0, "orders", 0, 0, 100, data=98, absent=2, gaps=(), gap_count=1)
    assert not account_for(plan(), [cut], Logs()).gaps_complete  # type: ignore[arg-type]


def test_what_is_asked_for_is_part_of_the_runs_identity() -> None:
    words: dict[str, Any] = {"from_": ["orders:0:0"], "to": ["orders:0:1"], "mode": "replace"}
    plain = BackfillRequest.parse(**words)
    assert set(plain.identity()) == {"mode", "from", "to", "interval", "label"}, "as every release before has it"
    for option in ({"drop_compacted": True}, {"adopt": ["s3://b/ledger"]}):
        asked = BackfillRequest.parse(**words, **option)
        assert asked.digest("j") != plain.digest("j")
        assert BackfillRequest.from_json(asked.identity()) == asked
