"""A job's status for people: problems first, and tables of at most 100 columns."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from kseg.jobs.output.status import status_headline, status_view
from kseg.jobs.output.tables import show

NOW = datetime(2026, 3, 4, 12, 0, tzinfo=UTC)
RUN = {
    "run_id": "4be1f00c52-1234567-9a3e11d0", "mode": "backfill-replace", "phase": "landing",
    "planned_at": "2026-03-04T11:00:00+00:00", "ended_at": None, "offsets": 1_234_567_890, "rows_in": 1_234_567_890,
    "rows_out": 1_234_567_890, "refused": "x", "refused_at": None, "owner": "a-host-of-some-length:12345:abcdef",
    "quarantined": 0,
}  # fmt: skip
PARTITION = {
    "topic": "orders-of-all-countries", "partition": 117, "log_start": 123_456_789, "frontier": 9_123_456_789,
    "last_stable_offset": 9_123_456_999, "high_watermark": 9_123_457_000, "lag": 210, "group_offset": 9_123_456_789,
    "agrees": True, "landed": 9_000_000_000, "given_up": 12, "beyond_frontier": 7,
}  # fmt: skip
DOCUMENT: dict[str, Any] = {
    "job": "orders", "ledger": "/lake/_kseg", "ledger_id": "l", "group": "g", "lag": 210, "dead_letters": {"open": 2},
    "problems": [
        {
            "code": "TransformError", "message": "run r failed (landing): it broke", "remedy": "run the job again",
            "at": "2026-03-04T11:48:00+00:00", "run": "r",
        },
        {"code": "table-missing", "message": "no table", "remedy": None, "at": None, "run": None},
    ],
    "runs": [RUN], "partitions": [PARTITION], "leases": [],
    "tables": [{"path": "/lake/orders", "version": 12, "ledger_version": 11, "rows": 5, "problem": "restored"}],
}  # fmt: skip


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_tables_fit_100_columns_without_breaking_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    stream = Terminal()
    show(status_view(DOCUMENT, NOW), status_headline(DOCUMENT), stream=stream)
    text = re.sub(r"\x1b\[[0-9;]*m", "", stream.getvalue())
    assert max(map(len, text.splitlines())) <= 100
    for whole in ("4be1f00c52-1234567-9a3e11d0", "1234567890", "9123456999"):
        assert whole in text
    assert text.splitlines()[0] == "orders: 210 offsets behind, 2 open dead letters, 2 problems need a person"
    assert "run r failed (landing): it broke (TransformError, 12 min ago)" in text
    assert "do: run the job again" in text
    assert text.index("it broke") < text.index("4be1f00c52")


def test_columns_that_say_nothing_are_left_out() -> None:
    plain = status_view({**DOCUMENT, "partitions": [{**PARTITION, "given_up": 0, "beyond_frontier": 0}]}, NOW)
    assert set(plain["partitions"][0]) >= {"partition", "next", "readable", "lag", "group", "undecided"}
    assert not {"given up", "landed later"} & set(plain["partitions"][0])
    assert status_headline({"job": "orders", "lag": 1, "problems": [], "dead_letters": {}}) == "orders: 1 offset behind"
    letters = {"appended": 3, "open": 1, "unknown": 2}
    line = status_headline({"job": "orders", "lag": 0, "problems": [], "dead_letters": letters})
    assert line == "orders: 0 offsets behind, 1 open dead letters, 2 unknown dead letters"
