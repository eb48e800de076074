"""An object store that loses answers, repeats requests, delays and refuses, under runs, backfills and maintenance.

The store is S3Proxy behind a forwarder (`harness/s3.py`). A rule holds for some seconds, and for a share of the
requests that it is for.
"""

from __future__ import annotations

import random
import re
import threading
from dataclasses import dataclass
from typing import Any

from fault_suite import drivers
from fault_suite.schedule import Action, Lane
from fault_suite.world import World
from s3 import Misbehaviour, S3Server


@dataclass(frozen=True)
class Rule:
    """methods, paths: patterns of the requests that it is for. share: of them."""

    methods: str
    paths: str
    misbehaviour: Misbehaviour
    share: float = 0.3


LOG = r"/_delta_log/\d+\.json$"
FILES = r"\.parquet$"

RULES = {
    "commits whose answers are lost": Rule("PUT", LOG, Misbehaviour(lose=True)),
    "commits that a proxy repeats": Rule("PUT", LOG, Misbehaviour(repeat=True)),
    "commits that are carried out late": Rule("PUT", LOG, Misbehaviour(wait=4.0)),
    "commits whose answers are late": Rule("PUT", LOG, Misbehaviour(linger=4.0)),
    "commits that are refused (503)": Rule("PUT", LOG, Misbehaviour(status=503)),
    "uploads whose answers are lost": Rule("PUT|POST", FILES, Misbehaviour(lose=True)),
    "any request refused (503)": Rule(".*", ".*", Misbehaviour(status=503), share=0.2),
    "any answer lost": Rule(".*", ".*", Misbehaviour(lose=True), share=0.1),
    "any request late": Rule(".*", ".*", Misbehaviour(wait=1.0), share=0.2),
    "reads refused (500)": Rule("GET|HEAD", ".*", Misbehaviour(status=500), share=0.2),
}

ALLOWED = drivers.ALLOWED | {"try again"}

LANES = (
    Lane("scheduled", {"ingest": 1}, interrupted=0.2),
    Lane("others", {"backfill": 3, "repeat a backfill": 3, "maintain": 1}, interrupted=0.2),
    Lane("store", dict.fromkeys(RULES, 1), in_turn=True),
)


class Store:
    """The rule that holds at the moment."""

    def __init__(self, server: S3Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._rule: Rule | None = None
        self._choice = random.Random(0)
        self._count = 0
        server.misbehaviour = self._treat

    @property
    def perform(self) -> dict[str, Any]:
        return {**drivers.PERFORM, **dict.fromkeys(RULES, self._hold)}

    def _hold(self, world: World, action: Action) -> None:
        """The rule for two to ten seconds; then the store is well for a moment."""
        choice = world.choose(action)
        with self._lock:
            self._rule, self._choice, self._count = RULES[action.what], choice, 0
        world.over.wait(choice.uniform(2, 10))
        with self._lock:
            self._rule, count = None, self._count
        if count:
            world.injected(action.what)
        world.over.wait(choice.uniform(0, 3))

    def _treat(self, method: str, path: str) -> Misbehaviour | None:
        with self._lock:
            rule = self._rule
            if rule is None or not re.fullmatch(rule.methods, method) or not re.search(rule.paths, path):
                return None
            if self._choice.random() >= rule.share:
                return None
            self._count += 1
            return rule.misbehaviour
