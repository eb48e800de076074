"""Every kind of event survives the table, and nothing unknown is guessed at."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from uuid import UUID

import pytest
from arro3.core import Array, ChunkedArray

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import Refused
from kseg.etl.ledger import codec, values
from kseg.etl.ledger import events as ev
from kseg.etl.ledger.bases import BasePinned
from kseg.etl.ledger.expired_letters import LettersExpired
from kseg.etl.ledger.fold import Entry
from kseg.etl.ledger.ranges import OffsetRange, OffsetSet
from kseg.etl.ledger.schemas import LineageChange, SchemasAdded, SchemaText
from kseg.etl.ledger.state import Archive, JobState, LeaseState, RunState, Summary
from kseg.etl.ledger.table_shaped import TableShaped
from kseg.etl.ledger.values import SnapshotToken

AT = datetime(2026, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
TP = TopicPartition("a.b-c_d", 12)
RANGES = (OffsetRange("orders", 0, 5, 2**62), OffsetRange("orders", 1, 0, 0))
PLANNED = (ev.PlannedRange("orders", 0, 5, 9, 3, "s3://bucket/t"), ev.PlannedRange("orders", 1, 0, 0))
COUNTS = ev.RangeCounts(1, 2, 3, 4, 5)
ACCOUNTS = (ev.RangeAccount("orders", 0, 5, 20, COUNTS),)
TABLES = {"s3://bucket/t": ev.TableState("id", 7, None), "./lake/ü 'x'": None}
TOPICS = {
    "orders": ev.TopicIdentity(UUID(int=5), "cluster", {0: ev.PartitionIdentity(3, 99)}),
    "old": ev.TopicIdentity(),
}
OFFSETS = {TP: ev.GroupOffset(2**60, "kseg:l:r", 4)}
PLAN = ev.RunPlan(
    run_id="r1",
    mode="interval",
    chain="r1",
    app_id="kseg/l/j/r1",
    app_version=1,
    config_hash="sha256:0",
    pinned_config='{"name": "öä", "sql": "SELECT \'x\'"}',
    cluster_id=None,
    topics=TOPICS,
    ranges=PLANNED,
    tables=TABLES,
    held_back={TP: ev.HeldBack(5, 9)},
    unconfirmed={TP: -1},
    asked='{"from": 1}',
    group="g",
    commit_offsets=False,
)
COMMIT = ev.TableCommit(4, 10, ev.TableState("id", 4, 110), removed=3, files=2, bytes=999, found=True)
SIGNED = {"chain": "r1", "run_id": "r1", "owner": "host:1:ab", "attempt": 3}

EVENTS = [
    ev.Leased(**SIGNED, duration=120.0, taken_from="other", forced=True),
    ev.Renewed(**SIGNED),
    ev.Released(**SIGNED),
    ev.Planned(**SIGNED, plan=PLAN),
    ev.Reconfigured(**SIGNED, config_hash="h", pinned_config="{}", ranges=PLANNED, tables=TABLES),
    ev.Replacing(**SIGNED, kept={TP: OffsetSet.of([(1, 3), (7, 8)])}),
    ev.Landed(**SIGNED, table="./t", commit=COMMIT),
    ev.Accounted(**SIGNED, ranges=ACCOUNTS, rows_in=1, rows_out=2, gaps=RANGES),
    ev.AccountFailed(
        **SIGNED, equation="rows", reason="3 of 4", ranges=ACCOUNTS, rows_in=4, rows_out=None, gaps=RANGES
    ),
    ev.AccountCleared(**SIGNED, reason="x"),
    ev.OffsetsCommitted(**SIGNED, group="g", how="transactional", offsets=OFFSETS),
    ev.Finished(**SIGNED, seconds={"land": 1.5}),
    ev.RunRefused(**SIGNED, code="table-restored", message="…"),
    ev.Abandoning(**SIGNED, reason="x"),
    ev.Abandoned(**SIGNED, tables={"t": ev.TableState("id", 9, 0)}, reason="x"),
    BasePinned(**SIGNED, bases={TP: 7}, reason="accepted"),
    ev.BoundaryPinned(**SIGNED, time_ms=-1, offsets={TP: 0}),
    ev.BoundaryNotPinned(**SIGNED, time_ms=-1, log_starts={TP: 7}),
    ev.OffsetsGivenUp(**SIGNED, ranges=RANGES, reason="gap"),
    ev.OffsetsReclaimed(**SIGNED, ranges=RANGES, reason="x"),
    ev.GroupOffsetsAccepted(**SIGNED, group="g", offsets=OFFSETS),
    ev.TopicSeen(**SIGNED, topics=TOPICS),
    ev.SourceAccepted(
        **SIGNED, topics=TOPICS, reopened={TP: 7}, reason="log-truncated", tables={"t": ev.TableState("id", 9, 0)}
    ),
    ev.TableAccepted(**SIGNED, table="t", state=ev.TableState("id", 9, 0), incident="table-restored", verified=False),
    ev.LedgerRebuilt(
        **SIGNED,
        lost=("l",),
        bases={TP: 7},
        landed={TP: OffsetSet.single(0, 9)},
        topics=TOPICS,
        tables={"t": ev.TableState("id", 9, 0)},
    ),
    SchemasAdded(
        **SIGNED,
        texts={"ab": SchemaText('"long"', ("{}",))},
        lineages={"value": LineageChange("http://sr", 1, '"long"', {"7": "ab"}, {"orders-value": {"1": "7"}})},
        pinned={"value": ev.PinnedSchemas("http://sr", 1, {"7": "ab", "8": ""})},
    ),
    LettersExpired(
        **SIGNED,
        table="s3://bucket/dead",
        runs={"run-1": {TP: OffsetSet.of([(1, 2), (5, 7)])}},
        counts={"open": 2, "redriven": 1},
        state=ev.TableState("id", 8, 3),
    ),
    TableShaped(**SIGNED, table="./t", state=ev.TableState("id", 2, 0)),
    Summary(
        **SIGNED,
        state=JobState(
            job="orders",
            ledger_id="l",
            version=9,
            sequence=44,
            updated_at=AT,
            runs={
                "r1": RunState(
                    plan=PLAN,
                    planned_at=AT,
                    owner="o",
                    landed={"./t": COMMIT},
                    accounted=ev.Accounted(**SIGNED, ranges=ACCOUNTS, rows_in=1, rows_out=2),
                    added={TP: OffsetSet.of([(0, 3), (5, 9)])},
                    refused=ev.RunRefused(code="c", message="m"),
                    ended_at=AT,
                    finished=True,
                )
            },
            leases={"r1": LeaseState("r1", "o", 3, AT, AT, 60.0)},
            bases={TP: 0},
            landed_offsets={TP: OffsetSet.single(0, 3)},
            given_up_offsets={TP: OffsetSet.single(3, 5)},
            boundaries={(TP, 1000): 3, (TP, 2000): 4, (TopicPartition("x", 0), 1000): 5},
            topics=TOPICS,
            tables={"t": ev.TableState("id", 1, 1)},
            committed={"g": OFFSETS},
            incremental_sequence=17,
            last_refused=ev.RunRefused(code="c", message="m"),
            archive=Archive(3, 30, 20, COUNTS),
        ),
    ),
]


def test_the_examples_are_all_there_is():
    assert [type(event).KIND for event in EVENTS] == list(codec.KINDS)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.KIND)
def test_round_trip(event):
    rows = codec.transition_rows([event, event], AT, 44, "name")
    table = codec.encode("orders", rows)
    assert table.schema.equals(codec.SCHEMA)
    assert codec.decode("orders", table) == rows


def test_rows_come_back_in_the_ledgers_order():
    rows = [
        codec.Row(Entry(ev.Renewed(attempt=number), AT, sequence), part, 2, "n")
        for number, (sequence, part) in enumerate([(1, 0), (1, 1), (2, 0), (2, 1), (10, 0), (10, 1)])
    ]
    shuffled = codec.encode("orders", [rows[i] for i in (4, 1, 5, 0, 3, 2)])
    assert codec.decode("orders", shuffled) == rows


def test_tables_of_an_abandonment_are_kept_and_left_out_where_they_are_not_known():
    event = ev.Abandoning(**SIGNED, landed_in=("t",))
    table = codec.encode("orders", codec.transition_rows([event], AT, 1, "n"))
    assert table["payload"][0].as_py() == '{"reason":"","landed_in":["t"]}'
    assert codec.decode("orders", table)[0].entry.event == event


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        (
            ev.Landed(**SIGNED, table="t", commit=ev.TableCommit(4, 1, ev.TableState("id", 4, 1), kept="0a")),
            '{"table":"t","commit":{"version":4,"rows":1,"after":{"id":"id","version":4,"rows":1},"removed":0,'
            '"files":0,"bytes":0,"found":false,"kept":"0a"}}',
        ),
        (ev.Abandoning(**SIGNED, landed_in=(), kept={"t": "0a"}), '{"reason":"","landed_in":[],"kept":{"t":"0a"}}'),
        (ev.Abandoned(**SIGNED, kept={"t": "0a"}), '{"tables":{},"landed_in":[],"reason":"","kept":{"t":"0a"}}'),
    ],
    ids=lambda given: getattr(given, "KIND", ""),
)
def test_what_a_replacement_kept_is_in_events_of_replacements_alone(event, payload):
    table = codec.encode("orders", codec.transition_rows([event], AT, 1, "n"))
    assert table["payload"][0].as_py() == payload
    assert codec.decode("orders", table)[0].entry.event == event


def test_a_summary_has_what_the_attempts_of_an_unfinished_replacement_kept():
    run = RunState(plan=PLAN, planned_at=AT, attempts_kept=({TP: OffsetSet.single(0, 3)}, {}))
    event = Summary(**SIGNED, state=JobState(job="orders", ledger_id="l", runs={"r1": run}))
    assert (
        codec.decode("orders", codec.encode("orders", codec.transition_rows([event], AT, 4, "n")))[0].entry.event
        == event
    )


def test_offsets_are_nested_by_topic_and_partition_in_json():
    committed = next(event for event in EVENTS if isinstance(event, ev.OffsetsCommitted))
    table = codec.encode("orders", codec.transition_rows([committed], AT, 1, "n"))
    assert table["payload"][0].as_py() == (
        '{"group":"g","how":"transactional","offsets":'
        '{"a.b-c_d":{"12":{"offset":1152921504606846976,"metadata":"kseg:l:r","leader_epoch":4}}}}'
    )


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.KIND)
def test_payloads_are_those_of_the_release_before_snapshot_tokens(event):
    """Byte for byte, in both directions: ledgers outlive releases."""
    text = (Path(__file__).parent / "payloads.txt").read_text(encoding="utf-8")
    written = dict(line.split(" ", 1) for line in text.splitlines())[event.KIND]
    rows = codec.transition_rows([event], AT, 1, "n")
    assert codec.encode("orders", rows)["payload"][0].as_py() == written
    assert codec.decode("orders", change(event, "payload", written)) == rows


def test_a_summary_keeps_what_tables_are_compared_with():
    record = ev.TableRecord(ev.TableState("id", 7), ev.TableState("id", 9, 3), "kseg/l/j/r1", 2)
    event = Summary(**SIGNED, state=JobState(job="orders", ledger_id="l", table_records={"t": record}))
    rows = codec.transition_rows([event], AT, 44, "name")
    assert codec.decode("orders", codec.encode("orders", rows)) == rows


def test_which_bases_are_of_files_is_kept():
    pinned = BasePinned(**SIGNED, bases={TP: 7}, reason="configured", of_files=True)
    summary = Summary(**SIGNED, state=JobState("orders", "l", bases={TP: 7}, bases_of_files={TP: 7}))
    for event in (pinned, summary):
        rows = codec.transition_rows([event], AT, 44, "name")
        assert codec.decode("orders", codec.encode("orders", rows)) == rows


ICEBERG = ev.TableState("uuid", 12, 100, SnapshotToken("iceberg/1", '{"snapshot": 7}', "9.1.0"))


def test_a_snapshot_of_another_format_carries_its_token(monkeypatch):
    monkeypatch.setattr(values, "SNAPSHOT_FORMATS", {"delta/1", "iceberg/1"})
    rows = codec.transition_rows([ev.Abandoned(**SIGNED, tables={"t": ICEBERG})], AT, 1, "n")
    table = codec.encode("orders", rows)
    assert codec.decode("orders", table) == rows
    assert (
        '{"id":"uuid","version":12,"rows":100,"snapshot":'
        '{"format":"iceberg/1","content":"{\\"snapshot\\": 7}","written_by":"9.1.0"}}'
    ) in table["payload"][0].as_py()


def test_a_snapshot_of_an_unknown_format_is_refused_with_the_release_that_wrote_it():
    table = codec.encode("orders", codec.transition_rows([ev.Abandoned(**SIGNED, tables={"t": ICEBERG})], AT, 1, "n"))
    with pytest.raises(Refused, match=r"iceberg/1, written by kseg 9\.1\.0; this release reads delta/1") as refused:
        codec.decode("orders", table)
    assert refused.value.code == "ledger-newer"
    assert refused.value.address == {"job": "orders", "sequence": 1}


def change(event, column, value):
    table = codec.encode("orders", codec.transition_rows([event], AT, 1, "n"))
    field = table.schema.field(column)
    return table.set_column(table.schema.get_field_index(column), field, ChunkedArray([Array([value], field.type)]))


@pytest.mark.parametrize(
    ("column", "value", "code"),
    [
        ("kind", "dreamt", "ledger-newer"),
        ("payload", '{"time_ms":1,"offsets":{},"zone":"UTC"}', "ledger-newer"),
        ("payload", '{"offsets":{}}', "ledger-damaged"),
        ("payload", '{"time_ms":"soon","offsets":{}}', "ledger-damaged"),
        ("payload", '{"time_ms":1,"offsets":{"orders":{"x":1}}}', "ledger-damaged"),
        ("payload", "", "ledger-damaged"),
    ],
)
def test_what_cannot_be_understood_is_refused(column, value, code):
    pinned = next(event for event in EVENTS if isinstance(event, ev.BoundaryPinned))
    with pytest.raises(Refused) as refused:
        codec.decode("orders", change(pinned, column, value))
    assert refused.value.code == code
    assert refused.value.address == {"job": "orders", "sequence": 1}


def test_rules_of_decoding_of_a_later_release_are_newer_not_damage():
    planned = ev.Planned(**SIGNED, plan=replace(PLAN, decoding_rules=2))
    payload = codec.encode("orders", codec.transition_rows([planned], AT, 1, "n"))["payload"][0].as_py()
    assert codec.decode("orders", change(planned, "payload", payload))[0].entry.event.plan.decoding_rules == 2
    later = payload.replace('"decoding_rules":2', '"decoding_rules":99')
    with pytest.raises(Refused, match="decoding rules 99 are unknown") as refused:
        codec.decode("orders", change(planned, "payload", later))
    assert refused.value.code == "ledger-newer"


def test_plans_of_the_first_rules_of_decoding_name_none():
    planned = ev.Planned(**SIGNED, plan=PLAN)
    payload = codec.encode("orders", codec.transition_rows([planned], AT, 1, "n"))["payload"][0].as_py()
    assert "decoding_rules" not in payload


def test_a_mode_of_a_later_release_is_newer_not_damage():
    payload = codec.encode("orders", codec.transition_rows([EVENTS[3]], AT, 1, "n"))["payload"][0].as_py()
    with pytest.raises(Refused) as refused:
        codec.decode("orders", change(EVENTS[3], "payload", payload.replace('"interval"', '"continuous"')))
    assert refused.value.code == "ledger-newer"
