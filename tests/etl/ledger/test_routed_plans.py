"""Plans of runs whose rows are routed to tables by something else than their topic: a range has rows of all of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from kseg.etl.ledger import codec
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.maintenance import summary_of
from kseg.etl.ledger.values import RangeCounts

ROUTES = {"order": "a", "payment": "b", "*": "b"}


def routed(words: Any, state: Any, run_id: str = "r1", **changes: Any) -> ev.Planned:
    planned: ev.Planned = words.plan(state, run_id, (0, 20), (1, 0, 5), routes=ROUTES, tables={"a": None, "b": None})
    ranges = tuple(replace(one, table=None) for one in planned.plan.ranges)
    return replace(planned, plan=replace(planned.plan, ranges=ranges, **changes))


def test_routes_are_in_the_json_of_plans_that_have_any(words, folding):
    def written(event: ev.Event) -> dict[str, Any]:
        rows = codec.transition_rows([event], folding.now, 1, "n")
        assert codec.decode("orders", codec.encode("orders", rows)) == rows
        document: dict[str, Any] = json.loads(codec.encode("orders", rows)["payload"][0].as_py())
        return document

    assert "routes" not in written(words.plan(folding.state, "r1", (0, 20)))["plan"]
    assert written(routed(words, folding.state))["plan"]["routes"] == ROUTES
    of_old = ev.RangeAccount("orders", 0, 0, 20, RangeCounts(data=20))
    account = words.step(ev.Accounted, "r1", ranges=(of_old,), rows_in=20, rows_out=20)
    assert "routed" not in written(account)["ranges"][0]["counts"]
    account = replace(account, ranges=(replace(of_old, counts=RangeCounts(data=20, routed={"a": 20})),))
    assert written(account)["ranges"][0]["counts"]["routed"] == {"a": 20}


def test_each_table_has_all_ranges(words, folding):
    plan = routed(words, folding.state).plan
    assert plan.routed == ("a", "b")
    assert plan.ranges_of(["b"]) == plan.ranges_of(["a", "b"]) == plan.ranges
    assert plan.ranges_of([]) == plan.ranges_of(["dead"]) == ()
    by_topic = words.plan(folding.state, "r1", (0, 20)).plan
    assert by_topic.ranges_of(["t"]) == by_topic.ranges
    assert by_topic.ranges_of(["a"]) == ()


def test_counts_are_added_up_by_table():
    one, other = RangeCounts(data=5, routed={"a": 2, "b": 3}), RangeCounts(data=4, routed={"b": 4})
    assert (one + other).routed == {"a": 2, "b": 7}
    assert (one + RangeCounts()).routed == one.routed


def test_no_table_of_its_routes_is_taken_for_a_runs_quarantine(words, folding):
    """Plans of early releases do not name theirs: it is the table that no range names."""
    folding.add(routed(words, folding.state))
    folding.add(words.landed("r1", table="a"))
    run = folding.state.runs["r1"]
    assert run.quarantine is None
    assert run.without_rows == (), "it has no account yet"
    folding.add(words.accounted(run.plan))
    assert folding.state.runs["r1"].without_rows == ("b",)


def test_a_summary_keeps_the_tables_of_a_run(words, folding):
    folding.add(routed(words, folding.state))
    plan = folding.state.runs["r1"].plan
    folding.add(words.landed("r1", table="a"), words.accounted(plan), words.step(ev.Finished, "r1"))
    folding.add(words.plan(folding.state, "r2", (20, 30)))
    summed = summary_of(folding.state, runs_kept=0)
    assert summed.archive.landed == {"a": 10}
