"""What people see: nothing cut off, numbers to the right. Progress: tests/jobs/progress."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from kseg.jobs.output.tables import ROWS_SHOWN, show


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(document: dict[str, Any], stream: io.StringIO | None = None) -> str:
    stream = stream or io.StringIO()
    show(document, "headline", stream=stream)
    return stream.getvalue()


def test_every_kind_of_value_is_shown() -> None:
    text = shown(
        {
            "job": "orders",
            "nothing": None,
            "counts": {"records": 5, "absent": 0},
            "ranges": [{"topic": "orders", "start": 5, "ok": True}, {"topic": "other", "start": None, "ok": False}],
            "notes": ["one", "two"],
            "empty": [],
            "group": {"group": "g", "offsets": {"orders": {"0": 7}}},
            "by_topic": {"orders": {"rows": 1}, "other": {"rows": 2}},
            "seconds": 1.23456,
        }
    )
    for part in ("headline", "orders", "records 5", "notes: two", "yes", "no", "–", "1.235", "0: 7"):
        assert part in text
    assert "nothing" not in text
    assert "empty" not in text


def test_tables_within_a_section_are_tables() -> None:
    text = shown({"files": {"rounds": 3, "ratios": [{"codec": "lz4", "java": 21.5}, {"codec": "zstd", "java": 9.0}]}})
    assert "rounds 3" in text
    assert "files: ratios" in text
    assert [line.split() for line in text.splitlines() if "21.5" in line] == [["lz4", "21.500"]]


def test_numbers_stand_to_the_right() -> None:
    lines = shown({"ranges": [{"topic": "a", "end": 5}, {"topic": "b", "end": 12345}]}).splitlines()
    short, long = (next(line for line in lines if number in line) for number in (" 5", "12345"))
    assert len(short.rstrip()) == len(long.rstrip())


@pytest.mark.parametrize("width", [20, 40, 80])
def test_nothing_is_cut_off_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    topic, path = "t" * 30, "/lake/" + "p" * 60
    text = shown({"tables": [{"topic": topic, "path": path, "rows": 1234567890123}]}, Terminal())
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert max(map(len, text.splitlines())) <= width
    letters = "".join(character for character in text if character.isalnum())
    assert "1234567890123" in letters or width < 40
    assert letters.count("t") >= 30
    assert letters.count("p") >= 60
    assert "…" not in text


def test_in_a_pipe_names_are_not_wrapped() -> None:
    """A name of 11 letters was, so that `kseg topics | grep rev4-orders` found nothing."""
    row = {"topic": "rev4-orders" * 9, "partitions": 1, "last record": "2026-11-27T02:50:00.123Z", "took": "0.17 s"}
    lines = shown({"topics": [row, row | {"partitions": 2}], "notes": ["word " * 40]}).splitlines()
    found = [line for line in lines if "rev4-orders" * 9 in line]
    assert len(found) == 2
    assert all("2026-11-27T02:50:00.123Z" in line and "0.17 s" in line for line in found)
    assert lines.index(found[1]) == lines.index(found[0]) + 1, "each record is one line"
    lines = shown({"tables": [row | {"state": "long " * 30}], "notes": ["word " * 40]}).splitlines()
    assert max(len(line.rstrip()) for line in lines) < 99 + 10 + 24 + 6 + 40 + 5 * 3, "sentences still are"
    assert max(len(line) for line in lines if "word" in line) <= 100


def test_markup_in_a_value_is_text() -> None:
    assert "[red]x[/red]" in shown({"note": "[red]x[/red]", "rows": [{"path": "[bold]y"}]})


def test_a_long_list_says_how_much_is_left() -> None:
    text = shown({"ranges": [{"partition": n} for n in range(ROWS_SHOWN + 7)]})
    assert "… and 7 more" in text


def test_names_of_others_are_escaped() -> None:
    stream = io.StringIO()
    evil = "a\x1b[2J\u202e"
    show({"topic": evil, "rows": [{"name": evil, evil: [evil]}]}, "headline", stream=stream)
    assert "\x1b" not in stream.getvalue()
    assert "\u202e" not in stream.getvalue()
    assert "a\\x1b[2J" in stream.getvalue()


RANGE = {
    "topic": "orders", "partition": 0, "start": 0, "end": 501, "records": 501, "control": 0, "aborted": 0, "absent": 0,
    "quarantined": 0, "late": None, "decoding": {"decoded": 500, "dead": 1, "dropped": 0, "nulled": 0},
}  # fmt: skip


def test_a_table_that_is_too_wide_leaves_out_counts_that_are_zero_in_all_rows() -> None:
    text = shown({"ranges": [RANGE, RANGE | {"partition": 1, "absent": 3}]})
    rows = [line.split() for line in text.splitlines() if "orders" in line]
    assert [(row[1], row[5]) for row in rows] == [("0", "0"), ("1", "3")]
    assert "0 in all rows: control, aborted, quarantined" in text
    assert "decoded 500, dead 1" in text
    assert "late" not in text


def test_text_is_not_wrapped_into_single_letters() -> None:
    many = {f"count_{number}": number + 1 for number in range(11)}
    assert "orders" in shown({"ranges": [{"topic": "orders", **many}]})


def test_times_and_offsets_of_zero_stay_whole() -> None:
    many = {f"name_{number}": "n" * 12 for number in range(5)}
    time = "2026-01-08T12:00:00.000Z"
    text = shown({"offsets": [{"topic": "orders", "record_offset": 0, **many, "expires": time}]})
    assert time in text
    assert "0 in all rows" not in text


def test_brackets_in_titles_and_headings_are_text() -> None:
    """They were rich's markup: `[red]` vanished, and `[/red]` ended in a MarkupError."""
    text = shown({"tables": {"lake/[red]": [{"[bold]": 1, "[/red]": 2}]}})
    for part in ("lake/[red]", "[bold]", "[/red]"):
        assert part in text
