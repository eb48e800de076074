"""Tables beside the rows have folders of their own, also where the job file leaves these to the default."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kseg.etl.errors import Diagnostic

LETTERS = {"value": {"format": "string"}, "on_error": "dead_letter"}


@pytest.mark.parametrize(
    ("changes", "path", "message", "remedy"),
    [
        (
            {"source/on_corruption": "quarantine", "sink/quarantine": {"path": "./lake/orders/bad"}},
            "sink.quarantine.path",
            "is inside",
            "of its own",
        ),
        (
            {
                "source": {"pattern": "b", "on_corruption": "quarantine"},
                "sink": {"path": "./lake/{topic}", "quarantine": {"path": "./lake/bad"}},
                "ledger": "./ledger",
            },
            "sink.quarantine.path",
            "for some topic",
            "of its own",
        ),
        (
            {"decode": LETTERS, "ledger": "./lake/orders_dead_letters"},
            "decode.on_error",
            "orders_dead_letters by default, which is inside",
            "sink.dead_letters.path",
        ),
        (
            {"decode": {"orders": LETTERS}, "ledger": "./lake/orders_dead_letters/ledger"},
            "decode.orders.on_error",
            "orders_dead_letters by default, which is inside",
            "sink.dead_letters.path",
        ),
        (
            {
                "decode": LETTERS,
                "source/on_corruption": "quarantine",
                "sink/quarantine": {"path": "./lake/orders_dead_letters"},
            },
            "decode.on_error",
            "orders_dead_letters by default, which is inside",
            "sink.dead_letters.path",
        ),
        (
            {
                "decode": LETTERS,
                "sink/dead_letters": {"path": "./lake/letters"},
                "ledger": "./lake/letters",
            },
            "sink.dead_letters.path",
            "is inside",
            "of its own",
        ),
    ],
)
def test_a_table_beside_the_rows_has_a_folder_of_its_own(
    faults: Callable[..., list[Diagnostic]], changes: dict[str, Any], path: str, message: str, remedy: str
) -> None:
    [found] = faults(changes)
    assert found.path == path
    assert message in found.message
    assert remedy in (found.remedy or "")


@pytest.mark.parametrize("on_error", ["fail", "set_null", "dead_letter"])
def test_a_table_of_dead_letters_is_for_those_who_had_some_too(
    load: Callable[..., Any], faults: Callable[..., list[Diagnostic]], on_error: str
) -> None:
    letters = {"sink/dead_letters": {"path": "./lake/letters"}}
    decode = {"value": {"format": "string"}, "on_error": on_error}
    if on_error == "fail":
        [found] = faults({"decode": decode, **letters})
        assert found.path == "sink.dead_letters"
        return
    assert load({"decode": decode, **letters}).dead_letters.endswith("lake/letters")
    [found] = faults({"decode": decode, "sink/dead_letters": {"max": 5}, "ledger": "./lake/orders_dead_letters"})
    assert "orders_dead_letters by default, which is inside" in found.message
    load({"decode": {**decode, "on_error": "set_null"}, "ledger": "./lake/orders_dead_letters"})


def test_dead_letters_beside_the_table_leave_a_ledger_of_that_name_alone_if_none_are_set_aside(
    load: Callable[..., Any],
) -> None:
    load({"decode": {"value": {"format": "string"}}, "ledger": "./lake/orders_dead_letters"})
    elsewhere = {"path": "./lake/letters"}
    load({"decode": LETTERS, "sink/dead_letters": elsewhere, "ledger": "./lake/orders_dead_letters"})
