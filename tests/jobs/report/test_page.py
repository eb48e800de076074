"""A run's page, read by an HTML parser: whole, self-contained, of other people's text only text, and not too large."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.telemetry.events import AccountFailed, OffsetsObserved, PartitionView
from kseg.etl.telemetry.recorder import Recorder, Telemetry
from kseg.jobs.invocation.failures import failure_of
from kseg.jobs.report.outcome import CommandOutcome
from kseg.jobs.report.page import render, write_page

VOID = {"meta", "link", "br", "hr", "img", "input"}


class Page(HTMLParser):
    """What a browser would find: elements with their attributes, text, and whether every element is closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] != "style":
            self.text.append(data)

    @property
    def words(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.text))


def outcome_of(
    told: Any, document: dict[str, Any] | None = None, exit_code: int = 0, leave_out: int = 0
) -> CommandOutcome:
    listener = Recorder()
    listener.phase("plan")
    for fact in told.facts[: len(told.facts) - leave_out]:
        listener.event(fact)
    return CommandOutcome("ingest", listener.close(), told.document if document is None else document, exit_code)


def refers_to(html: str) -> set[str]:
    """Whatever a browser might fetch."""
    page = Page(html)
    names = ("href", "src", "xlink:href", "action", "data", "poster", "srcset", "background", "formaction", "ping")
    found = {value or "" for _, attrs in page.elements for name, value in attrs.items() if name in names}
    return found | set(re.findall(r"url\(([^)]*)\)", html)) | set(re.findall(r"@import\s+([^;]+)", html))


def test_the_page_tells_the_run(told: Callable[..., Any]) -> None:
    run = told()
    page = Page(render(outcome_of(run)))
    for words in (
        "orders",
        run.plan.run_id,
        "Done",
        "240 rows written by tasks = 240 rows in the tables’ commits",
        "240 records + 30 transaction markers + 30 aborted + 0 unreadable + 0 absent = 300 offsets",
        run.table,
        "Fetch",
        "orders-2",
        "worker-1",
        "data-platform",
    ):
        assert words in page.words, words
    headings = [i for tag, i in page.elements if tag == "h2"]
    assert len(headings) == len({i["id"] for i in headings}) >= 9


def test_tables_with_other_columns_have_lists_of_their_own(told: Callable[..., Any]) -> None:
    outcome = outcome_of(told())
    schemas = outcome.telemetry.schemas
    assert re.search(r"Columns \(2\)\s+key binary\s+value binary", Page(render(outcome)).words)
    [table], [columns] = schemas, schemas.values()
    schemas |= {"lake/a": {"id": "int64"}, "lake/b": dict(columns), "lake/c": {"id": "string", "at": "date32[day]"}}
    words = Page(render(outcome)).words
    assert re.search(r"Columns of lake/a \(1\)\s+id int64", words), words
    assert re.search(rf"Columns of {re.escape(', '.join(sorted([table, 'lake/b'])))} \(2\)\s+key binary", words)
    assert re.search(r"Columns of lake/c \(2\)\s+id string\s+at date32\[day\]", words)


def test_a_failed_runs_page_names_the_log(told: Callable[..., Any]) -> None:
    document = {**failure_of(Refused("some-code", "found it")).to_json(), "log": "/var/log/kseg/one.log"}
    assert "/var/log/kseg/one.log" in Page(render(outcome_of(told(), document, 3))).words
    assert "tracebacks" not in Page(render(outcome_of(told()))).words


def test_nulls_by_column_stand_beside_those_of_the_run_before(told: Callable[..., Any]) -> None:
    run = told()
    outcome = outcome_of(run)
    event = outcome.telemetry.commits[run.table]
    nulls = {"amount": event.commit.rows, "key": 0, "note": 24}
    outcome.telemetry.commits[run.table] = replace(event, commit=replace(event.commit, nulls=nulls))
    before = {"run": "r-before", "rows": 100, "nulls": {"amount": 1, "key": 0, "note": 10}}
    outcome.document["tables"] = [{"path": run.table, "before": before}]
    words = Page(render(outcome)).words
    assert re.search(r"amount\s+more than before\s+240\s+100\.0 %\s+1\.0 %", words), words
    assert re.search(r"note\s+24\s+10\.0 %\s+10\.0 %", words)
    assert "r-before" in words
    assert "key 0" not in words


def test_freshness_says_up_to_when_each_partition_is_complete(told: Callable[..., Any]) -> None:
    run = told()
    words = Page(render(outcome_of(run))).words
    assert "Freshness ✕ 1 late" in words
    assert "At 2026-01-01 00:30:00 UTC the oldest record that had not landed was 20 min 00 s old." in words
    assert re.search(r"orders-2 late 100 2026-01-01 00:10:00 UTC 20 min 00 s 40", words), words
    assert re.search(r"orders-0 100 2026-01-01 00:30:00 UTC 0.00 s 0", words), words
    run.report.freshness = replace(run.report.freshness, late=[], seconds=None, unknown=["orders-2"], why="no READ")
    words = Page(render(outcome_of(run))).words
    assert "Freshness ✕ 1 unknown" in words, "not within the limit"
    assert "the age of records that had not landed was not known" in words
    run.report.freshness = None
    assert "Freshness" not in Page(render(outcome_of(run))).words


@pytest.mark.parametrize(
    ("ui", "linked"), [("http://driver:4040", True), ("javascript:alert(1)", False), (None, False)]
)
def test_sparks_ui_is_a_link_if_it_is_an_address_of_the_web(
    ui: str | None, linked: bool, told: Callable[..., Any]
) -> None:
    outcome = outcome_of(told())
    assert outcome.telemetry.spark is not None
    outcome.telemetry.spark = replace(outcome.telemetry.spark, ui=ui)
    links = {attrs["href"] for tag, attrs in Page(render(outcome)).elements if tag == "a"}
    assert links == ({ui} if linked else set())
    assert "index.html" in {
        attrs["href"] for tag, attrs in Page(render(outcome, in_folder=True)).elements if tag == "a"
    }


def test_an_error_is_explained_on_the_page(told: Callable[..., Any]) -> None:
    document = failure_of(Refused("table-missing", "it is gone", remedy="restore it")).to_json()
    words = Page(render(outcome_of(told(), document, 3))).words
    assert "More about it: a table that rows have landed in is gone. kseg explain table-missing" in words


def test_nothing_in_it_refers_to_anything_outside(told: Callable[..., Any]) -> None:
    html = render(outcome_of(told(topic="https___evil.example")))
    assert refers_to(html) == {"data:,"}
    page = Page(html)
    assert not [tag for tag, _ in page.elements if tag in ("script", "iframe", "object", "embed", "base", "form")]
    assert not [name for _, attrs in page.elements for name in attrs if name.startswith("on")]
    policy = next(a for tag, a in page.elements if tag == "meta" and a.get("http-equiv") == "Content-Security-Policy")
    assert (policy["content"] or "").startswith("default-src 'none'")


HOSTILE = '<script>alert(1)</script><img src=//evil.example/x>"\' onload="x'


def test_other_peoples_text_is_text(told: Callable[..., Any]) -> None:
    error = Refused("some-code", f"found {HOSTILE}", remedy=HOSTILE, topic=HOSTILE)
    run = told()
    run.partitions[0] = TopicPartition(HOSTILE, 0)
    outcome = outcome_of(run, failure_of(error).to_json(), 3)
    outcome.telemetry.messages.append(HOSTILE)
    html = render(outcome)
    page = Page(html)
    assert refers_to(html) == {"data:,"}
    assert not [tag for tag, _ in page.elements if tag in ("script", "img")]
    assert page.words.count("<script>alert(1)</script>") > 5


def test_pictures_say_in_words_what_they_show(told: Callable[..., Any]) -> None:
    page = Page(render(outcome_of(told())))
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert len(ids) == len(set(ids))
    pictures = [attrs for tag, attrs in page.elements if tag == "svg"]
    assert len(pictures) >= 6
    for attrs in pictures:
        assert attrs["role"] == "img"
        named = (attrs["aria-labelledby"] or "").split()
        assert len(named) == 2
        assert set(named) <= set(ids)


def test_a_run_that_failed_has_a_page_of_what_was_known(told: Callable[..., Any]) -> None:
    error = Refused("offsets-absent", "offsets are absent", remedy="set source.on_gap: record", topic="orders")
    outcome = outcome_of(told(), failure_of(error).to_json(), 3, leave_out=2)
    words = Page(render(outcome)).words
    for expected in ("Refused", "offsets-absent", "offsets are absent", "set source.on_gap: record", "topic=orders"):
        assert expected in words
    assert "6 of 6 tasks ended" in words
    assert "✓ holds" not in words


def test_a_failed_account_says_which_equation(told: Callable[..., Any]) -> None:
    outcome = outcome_of(told(), {"error": {"kind": "Refused", "message": "m", "address": {}}, "exit_code": 3}, 3)
    outcome.telemetry.account_failed = AccountFailed("offsets", "7 offsets are missing")
    words = Page(render(outcome)).words
    assert "✕ does not hold The equation of offsets" in words
    assert "7 offsets are missing" in words


def test_a_command_that_never_got_as_far_as_a_job_has_a_page_too() -> None:
    error = {"kind": "ConfigurationError", "message": "2 faults", "address": {}, "cause": None, "remedy": None}
    html = render(CommandOutcome("ingest", Recorder().close(), {"error": error, "exit_code": 2}, 2))
    assert "2 faults" in Page(html).words


def test_no_secret_stands_in_it(told: Callable[..., Any]) -> None:
    run = told()
    assert run.job.kafka_properties()["sasl.password"] == "hunter2-is-a-secret"
    html = render(outcome_of(run))
    assert "hunter2" not in html
    assert "${KAFKA_PASSWORD}" in html


def test_secrets_from_outside_of_the_file_are_masked(told: Callable[..., Any]) -> None:
    """A properties file beside the job file holds values, not references."""
    run = told()
    run.job = run.job.model_copy(update={"kafka": {**run.job.kafka, "sasl.password": "plain-as-day"}})
    html = render(outcome_of(run))
    assert "plain-as-day" not in html
    assert "***" in html


def test_a_job_of_ten_thousand_partitions_has_a_page_that_opens(told: Callable[..., Any]) -> None:
    run = told()
    outcome = outcome_of(run)
    many = {TopicPartition("orders", n): PartitionView(0, n, n, 0, n // 2) for n in range(10_000)}
    listener = Recorder()
    listener.telemetry = outcome.telemetry
    listener.event(OffsetsObserved(many))
    html = render(outcome)
    assert len(html) < 300_000
    assert "more:" in Page(html).words


def test_a_folder_gets_a_page_a_run_and_a_file_is_replaced(told: Callable[..., Any], tmp_path: Path) -> None:
    outcome = outcome_of(told())
    folder = tmp_path / "reports"
    assert write_page(str(folder), outcome).place == str(folder / f"orders-{outcome.run_id}.html")
    file = tmp_path / "deep" / "last.html"
    assert write_page(str(file), outcome).place == str(file)
    before = file.read_text()
    write_page(str(file), outcome_of(told(partitions=2)))
    assert Page(file.read_text()).words != Page(before).words
    assert [entry.name for entry in file.parent.iterdir()] == ["last.html"]


def test_a_page_in_an_object_store(told: Callable[..., Any], s3: Any) -> None:
    """A folder gets a page a run, a page is replaced, each in one request; what the store refuses is an OSError."""
    for place in ("s3://logs/pages/", "s3://logs/pages", "s3a://logs/pages/last.html", "s3://logs/pages/last.html"):
        url = write_page(place, outcome_of(told())).place
        file = s3.folder / url.partition("://logs/")[2]
        assert "Throughput over time" in file.read_text()
        assert file.stat().st_size > 10_000
    assert sorted(file.name for file in (s3.folder / "pages").iterdir()) == [
        "last.html",
        "orders-3f9c46bd0e0b4b0aa4d3c1a5f00d7e11.html",
    ]
    assert [one.method for one in s3.asked if one.path.endswith(".html")] == ["PUT"] * 4
    with pytest.raises(OSError, match="no-such-bucket"):
        write_page("s3://no-such-bucket/pages", outcome_of(told()))


def test_a_page_from_the_ledger_says_what_it_does_not_know(told: Callable[..., Any]) -> None:
    this = told()
    this.report.status = "abandoned"
    telemetry = Telemetry(job=this.job, plan=this.plan, ended=1.0)
    page = Page(render(CommandOutcome("report", telemetry, this.document, 0, from_ledger=True)))
    assert "Abandoned" in page.words
    assert "Only the run itself knows throughput, tasks, requests, throttling, phases and lag" in page.words
    assert "Only the run itself knows" not in render(outcome_of(this))


def test_the_documents_own_words_are_not_changed(told: Callable[..., Any]) -> None:
    run = told()
    document = run.document
    before = json.dumps(document)
    render(outcome_of(run, document))
    assert json.dumps(document) == before


def test_phases_add_up_to_the_time_that_the_run_took(told: Callable[..., Any]) -> None:
    outcome = outcome_of(told())
    telemetry = outcome.telemetry
    telemetry.phases, telemetry.ended = [("plan", 2.0)], telemetry.began + 20
    outcome.document["seconds"] = {"plan": 3.0, "land": 10.0, "total": 14.5}
    assert outcome.phases == {"start": 2.0, "plan": 3.0, "land": 10.0, "other": 5.0}
    assert sum(outcome.phases.values()) == telemetry.seconds


def test_the_seven_phases_of_a_run_have_seven_colours(told: Callable[..., Any]) -> None:
    outcome = outcome_of(told())
    telemetry = outcome.telemetry
    telemetry.phases, telemetry.ended = [("plan", 2.0)], telemetry.began + 20
    outcome.document["seconds"] = dict.fromkeys(("plan", "land", "spark", "account", "commit"), 1.0)
    assert {"start", "other"} < set(outcome.phases)
    legend = re.search(r'<p class="legend">(.*?)</p>', render(outcome))
    assert legend is not None
    colours = re.findall(r"swatch (c\d)", legend[1])
    assert len(colours) == len(set(colours)) == len(outcome.phases) == 7
