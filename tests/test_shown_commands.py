"""Every command of `kseg` that a page or a message shows exists, with its options."""

from __future__ import annotations

from pathlib import Path

import pytest

from shown_commands import Shown, fault, in_shell, in_source, on_page

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "airflow").glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NOW = [page for page in PAGES if page.name != "CHANGELOG.md"]  # which tells of options that were
SOURCES = ("airflow/kseg_airflow", "client", "etl", "jobs", "segment_reader")


@pytest.mark.parametrize("page", NOW, ids=lambda page: page.name)
def test_commands_of_a_page_exist(page: Path) -> None:
    assert {str(shown): said for shown in on_page(page.read_text()) if (said := fault(shown))} == {}


@pytest.mark.parametrize("part", SOURCES)
def test_commands_that_messages_name_exist(part: str) -> None:
    shown = {
        (str(file.relative_to(ROOT)), one)
        for file in (ROOT / part).rglob("*.py")
        for one in in_source(file.read_text())
    }
    assert {(file, str(one)): said for file, one in sorted(shown) if (said := fault(one))} == {}


def test_hundreds_of_commands_are_looked_at() -> None:
    shown = [one for page in NOW for one in on_page(page.read_text())]
    assert sum(one.whole for one in shown) > 120
    assert sum(not one.whole for one in shown) > 200


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("kseg ingest orders.yaml --report reports", None),
        ("$ A=$(kseg broker status --dir kafka --json | python -c 'import sys')", None),
        ("*/15 * * * *  kseg  /opt/kseg/bin/kseg ingest /etc/kseg/orders.yaml --quiet   # every 15 minutes", None),
        ("out=$(/opt/kseg/bin/kseg status /etc/kseg/orders.yaml 2>&1) || echo", None),
        ("kseg ingest", "missing: JOB.yaml"),
        ("kseg ingest orders.yaml --raport reports", "No such option"),
        ("kseg ingest orders.yaml --report", "requires an argument"),
        ("kseg ingest one.yaml two.yaml", "one word too many: two.yaml"),
        ("kseg backfill orders.yaml --mode again", "is not one of"),
        ("kseg broker begin", "no such command: begin"),
        ("kseg start", "no such command: start"),
    ],
)
def test_a_line_is_judged(line: str, said: str | None) -> None:
    (shown,) = in_shell(line)
    found = fault(shown)
    assert found == said if said is None else said in str(found)


def test_a_sentence_and_a_message_may_shorten_a_command() -> None:
    page = "Say `kseg ingest --report`, not `kseg ingest --raport`.\n"
    assert [fault(shown) for shown in on_page(page)] == [None, "no such option: --raport"]
    (shown,) = in_source("raise Error(f'{name}: kseg repair {job} --accept-tables TABLE accepts it. Or wait')")
    assert shown == Shown(("repair", "--accept-tables"), whole=False)
    assert "--accept-tables" in str(fault(shown))
