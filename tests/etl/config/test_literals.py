"""Values of the user are what the file says, wherever a job file holds them as YAML scalars."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from kseg.etl.config.decoding import Decode, Payload, PayloadSchema
from kseg.etl.config.job import Job
from kseg.etl.config.load import job_from_document, load_job
from kseg.etl.decoding.expectations import literal, parse_expectation
from kseg.etl.decoding.rules import FIRST, NEWEST, DecodingRules
from kseg.etl.errors import ConfigurationError, Diagnostic
from kseg.etl.ledger.state import JobState
from kseg.etl.ledger.values import RunPlan
from kseg.etl.run.check_decode import decode_faults, refuse_odd_numbers
from kseg.etl.transform.decode import decode_step

Load = Callable[..., Job]
Faults = Callable[..., list[Diagnostic]]

JOB = """
version: 1
name: orders
group: g
kafka: {bootstrap.servers: "localhost:9092", client.rack: KAFKA}
registry: {url: "http://localhost:8081", custom: REGISTRY}
source: {topics: [orders], segments: {paths: [./logs], options: {region: SEGMENTS}}}
spark: {conf: {spark.mine: SPARK}}
ledger: ./ledger
sink: {path: ./orders}
decode: DECODE
"""
REST = """
ledger: ./ledger
sink: {path: ./orders}
"""
VALUE = "value: {format: json, schema: {columns: {c: string}}}"
PLACES: Mapping[str, Callable[[Job], str]] = {
    "KAFKA": lambda job: (job.kafka or {})["client.rack"],
    "SEGMENTS": lambda job: job.source.segments.options["region"] if job.source.segments is not None else "",
    "SPARK": lambda job: job.spark.conf["spark.mine"],
    "DECODE": lambda job: literals(job.decode)[1],
    "TOPICS": lambda job: literals(job.decode["orders"])[1] if isinstance(job.decode, dict) else "",
}
"""Every place that takes values of the user: how the job has the value."""

SCALARS = [
    *("NO", "no", "Yes", "on", "OFF", "true", "True", "FALSE", "y"),
    *("1.10", "010", "1_0", "0x1F", "0b11", "1e3", "+5", "-0", ".5", ".inf", "12:30", "2026-01-01", "text", "=", "<"),
]


def literals(decode: Any, rules: Any = NEWEST) -> tuple[str, ...]:
    assert isinstance(decode, Decode)
    found = decode.expectations(rules)["c"]
    assert isinstance(found, tuple)
    return found


def text_of(place: str, value: str) -> str:
    expect = f"{{{VALUE}, expect: {{c: [x, {value}]}}}}"
    filled = {"DECODE": expect if place != "TOPICS" else f"{{orders: {expect}}}"}
    filled = {"KAFKA": "a", "REGISTRY": "a", "SEGMENTS": "a", "SPARK": "a"} | filled
    if place not in ("DECODE", "TOPICS"):
        filled[place], filled["DECODE"] = value, f"{{{VALUE}}}"
    text = JOB.replace(", custom: REGISTRY", "")
    for name, given in filled.items():
        text = text.replace(name, given)
    return text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("scalar", SCALARS)
def test_a_value_is_what_the_file_says(load: Load, place: str, scalar: str) -> None:
    for written, meant in ((scalar, scalar), (f"'{scalar}'", scalar), (f'"{scalar}"', scalar)):
        job = load(text_of(place, written))
        assert PLACES[place](job) == meant
        assert PLACES[place](job_from_document(job.pinned())) == meant


@pytest.mark.parametrize("place", ["DECODE", "TOPICS"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        *[(value, "has no value") for value in ("~", "null", "Null")],
        *[(value, "has an anchor") for value in ("&a b", "&a b, *a")],
        *[(value, "is not a value") for value in ("{a: b}", "[b]")],
    ],
)
def test_what_is_no_value_is_refused_with_its_place(faults: Faults, place: str, value: str, message: str) -> None:
    found = {fault.path: (fault.message, fault.remedy) for fault in faults(text_of(place, f"{value}, z"))}
    at = "decode.orders.expect.c[1]" if place == "TOPICS" else "decode.expect.c[1]"
    assert message in found[at][0]
    assert "quote it" in found[at][1]


def test_a_value_with_a_tag_has_one_error(faults: Faults) -> None:
    found = [fault for fault in faults(text_of("DECODE", "!own b")) if fault.path == "decode.expect.c[1]"]
    assert [fault.message for fault in found] == ["has a YAML tag that is not supported"]


def test_the_key_for_pinned_jobs_is_none_of_a_job_file(faults: Faults) -> None:
    decode = {"value": {"format": "string"}, "expect_texts": {"value": ["x"]}}
    assert [(fault.path, fault.message) for fault in faults({"decode": decode})] == [
        ("decode.expect_texts", "is unknown")
    ]


def payload_of(job: Job) -> Payload:
    assert isinstance(job.decode, Decode)
    assert job.decode.value is not None
    return job.decode.value


def columns_of(job: Job) -> Iterable[str]:
    declared = payload_of(job).schema_
    assert isinstance(declared, PayloadSchema)
    return declared.columns or ()


JSON = "value: {format: json, schema: {columns: {<KEY: string>}}"
KEYS: Mapping[str, tuple[str, Callable[[Any], Iterable[str]]]] = {
    "columns": ("decode: {" + JSON + "}}", lambda job: columns_of(job)),
    "formats": ("decode: {" + JSON + ", formats: {<KEY: json>}}}", lambda job: payload_of(job).formats),
    "rename": ("decode: {" + JSON + ", rename: {<KEY: column_NUMBER>}}}", lambda job: payload_of(job).rename),
    "expect": ("decode: {" + JSON + "}, expect: {<KEY: not null>}}", lambda job: job.decode.expect),
    "topics": ("decode: {<KEY: {value: {format: string}}>}", lambda job: job.decode),
    "segments": (
        "source: {topics: [orders], segments: {paths: [./logs], options: {<KEY: a>}}}",
        lambda job: job.source.segments.options,
    ),
    "submit": (
        "airflow: {execution: {submit: spark-submit, submit_options: {<KEY: a>}}}",
        lambda job: job.airflow.execution.submit_options,
    ),
    "assign": ("source: {assign: {<KEY: [0]>}}", lambda job: job.source.assign),
    "routes": ("sink: {route_by: header.kind, routes: {<KEY: {path: ./a}>}}", lambda job: job.sink.routes),
}
"""Places whose keys are names: the section with an entry between < and >, and the names that the job has."""

NO_TOPIC = ("+5", "12:30", "=", "<")
NO_ROUTE = (
    *("NO", "no", "Yes", "on", "OFF", "true", "True", "FALSE"),
    *("010", "1_0", "0x1F", "0b11", "1.10", ".5", ".inf"),
)
"""Values of routes want quotes where YAML reads something else."""
SIGNED = ("+5", "-0")


def with_keys(place: str, *keys: str) -> str:
    section, _ = KEYS[place]
    lines = JOB.replace(", custom: REGISTRY", "").replace("KAFKA", "a").replace("SEGMENTS", "a").splitlines()
    kept = [line for line in lines if not line.startswith((section.partition(":")[0], "decode", "spark"))]
    entries = re.sub(
        "<(.*?)>",
        lambda found: ", ".join(found[1].replace("KEY", key).replace("NUMBER", str(n)) for n, key in enumerate(keys)),
        section,
    )
    return "\n".join([*kept, entries])


@pytest.mark.parametrize("place", KEYS)
def test_a_key_is_what_the_file_says(load: Load, faults: Faults, place: str) -> None:
    left_out = {"routes": (*NO_ROUTE, *SIGNED), "assign": NO_TOPIC}.get(place, ())
    names = KEYS[place][1]
    written = [key for key in SCALARS if key not in left_out]
    if place == "topics":  # of those that the source reads
        written = ["orders"]
    quoted, plain = (load(with_keys(place, *(f"{q}{key}{q}" for key in written))) for q in ("'", ""))
    assert list(names(quoted)) == written
    assert list(names(plain)) == written
    assert plain.config_hash == quoted.config_hash
    assert list(names(job_from_document(plain.pinned()))) == written


def test_routes_of_what_yaml_reads_in_another_way_want_quotes(load: Load, faults: Faults) -> None:
    for key in NO_ROUTE:
        found = faults(with_keys("routes", key))
        assert [fault.path for fault in found] == [f"sink.routes.{key}"]
        assert "quotes" in str(found[0].remedy)
    for key in SIGNED:
        assert list(KEYS["routes"][1](load(with_keys("routes", key)))) == [str(int(key))]
    assert [fault.path for fault in faults(with_keys("routes", "5", "+5"))] == ["sink.routes"]


def test_keys_that_yaml_takes_for_one_value_are_several_names(load: Load, faults: Faults) -> None:
    """To YAML 1.1 `on`, `yes` and `1` are the same key."""
    names = ["on", "yes", "true", "1", "1.0", "0x1", "01"]
    assert list(KEYS["columns"][1](load(with_keys("columns", *names)))) == names
    for twice in (("on", "'on'"), ("1", '"1"'), ("1.0", "1.0")):
        (fault,) = faults(with_keys("columns", *twice))
        assert (fault.path.rpartition("columns.")[2], fault.message) == (twice[0], "is given twice")


@pytest.mark.parametrize("key", ["on", "NO", "1", "1.0", "0x1F"])
def test_an_error_below_a_key_has_its_text(faults: Faults, key: str) -> None:
    text = (
        with_keys("columns", key).replace(f"{key}: string", f"{key}: [a]").replace("{format: json", "{\nformat: json")
    )
    (fault,) = faults(text)
    assert fault.path == f"decode.value.schema.columns.{key}"
    assert fault.line == text.count("\n") + 1


@pytest.mark.parametrize("key", ["null", "~", "", "!own a", "!!binary YQ==", "[a]"])
def test_a_key_that_is_no_name_says_so(faults: Faults, key: str) -> None:
    found = faults(with_keys("columns", f"? {key}\n" if key == "" else key))
    fault = next(fault for fault in found if fault.message == "a key is not text or a number")
    assert fault.path == "decode.value.schema.columns"
    assert fault.remedy is not None
    assert "quotes" in fault.remedy


def test_partitions_are_numbers(load: Load, faults: Faults) -> None:
    def text(keys: str) -> str:
        offsets = ", ".join(f"{key}: {number}" for number, key in enumerate(keys.split()))
        return JOB[: JOB.index("registry")] + f"source: {{topics: [o], starting_offsets: {{o: {{{offsets}}}}}}}" + REST

    for keys in ("0 '1'", "'0' +1", "-0 1"):
        job = load(text(keys))
        assert job.source.starting_offsets == {"o": {0: 0, 1: 1}}
        assert job_from_document(job.pinned()).config_hash == job.config_hash
    for key in ("on", "1.0", "010", "0x1", "1_0", "a", "-1"):
        assert [fault.path for fault in faults(text(key))] == [f"source.starting_offsets.o.{key}"]
    for keys in ("0 -0", "1 '01'"):
        assert [fault.path for fault in faults(text(keys))] == ["source.starting_offsets.o"]


@pytest.mark.parametrize(
    ("value", "alike"), [("NO", False), ("1.10", False), ("010", False), ("DE", True), ("7", True)]
)
def test_only_files_that_are_read_in_another_way_have_another_hash(load: Load, value: str, alike: bool) -> None:
    job = load(text_of("DECODE", value))
    quoted = load(text_of("DECODE", f"'{value}'"))
    assert (job.config_hash == job.hash_by(FIRST)) is alike
    assert job.hash_by(NEWEST) == job.config_hash
    assert (quoted.config_hash, quoted.decode.expect_texts) == (quoted.hash_by(FIRST), {})  # type: ignore[union-attr]


def test_the_first_rules_read_what_earlier_releases_read(load: Load) -> None:
    """The hash and the literals are those of release 0.1.0 and of commit 3a44094e."""
    job = load(text_of("DECODE", "NO, 1.10, .inf, 1_0, True"))
    assert literals(job.decode, FIRST) == ("x", "false", "1.1", "inf", "10", "true")
    pinned = job_from_document(job.pinned())
    assert (literals(pinned.decode, FIRST), pinned.config_hash) == (literals(job.decode, FIRST), job.config_hash)
    assert pinned.hash_by(FIRST) == job.hash_by(FIRST)
    assert load_job(job.pinned()).config_hash == job.config_hash


def test_a_step_reads_literals_by_its_rules(load: Load) -> None:
    decode = load(text_of("DECODE", "NO")).decode
    assert isinstance(decode, Decode)
    by = {rules.version: decode_step(decode, rules=rules).expectations[0].literals for rules in (FIRST, NEWEST)}
    assert by == {1: ("x", "false"), 2: ("x", "NO")}


def with_unavailable(load: Load, written: str, *, by_topic: bool = False) -> Job:
    decode = f"{{value: {{format: json, envelope: debezium, schema: {{columns: {{c: string}}}}{written}}}}}"
    return load(
        text_of("DECODE", "y").rpartition("decode:")[0] + f"decode: {f'{{orders: {decode}}}' if by_topic else decode}"
    )


@pytest.mark.parametrize("by_topic", [False, True])
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *[(f", unavailable: {null}", "null") for null in ("null", "Null", "~", "'null'")],
        *[(f", unavailable: {word}", word) for word in ("text", "mark")],
        (", unavailable: ", None),
        ("", None),
    ],
)
def test_null_is_a_word_where_values_are_unavailable(
    load: Load, written: str, meant: str | None, by_topic: bool
) -> None:
    job = with_unavailable(load, written, by_topic=by_topic)
    for found in (job, job_from_document(job.pinned())):
        decode = found.decode["orders"] if isinstance(found.decode, dict) else found.decode
        assert decode is not None
        assert decode.value is not None
        assert decode.value.unavailable == meant
        assert found.config_hash == job.config_hash
    plain = with_unavailable(load, "", by_topic=by_topic)
    assert (job.config_hash == plain.config_hash) is (meant is None)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("1.10", pa.decimal128(9, 2), Decimal("1.10")),
        ("12345678901234567.89", pa.decimal128(19, 2), Decimal("12345678901234567.89")),
        ("no", pa.bool_(), False),
        ("On", pa.bool_(), True),
        ("-.inf", pa.float64(), float("-inf")),
        (".5", pa.float64(), 0.5),
        ("010", pa.string(), "010"),
        ("-0", pa.int8(), 0),
        ("1e3", pa.decimal128(9, 2), Decimal(1000)),
        ("2024-02-09", pa.date32(), date(2024, 2, 9)),
    ],
)
def test_a_literal_is_read_as_the_columns_type(text: str, kind: pa.DataType, value: Any) -> None:
    assert literal(text, kind) == value
    expected = parse_expectation("c", [text])
    expected.check(kind, strict=True)
    assert not expected.broken(pa.array([value], kind)).any()


ODD = [
    *[("010", kind, 10) for kind in ("bigint", "double", "decimal(9,2)")],
    *[("+1", kind, 1) for kind in ("int", "float", "decimal(9,2)")],
    *[(text, kind, number) for kind in ("tinyint", "float") for text, number in (("1_0", 10), ("00", 0), ("-01", -1))],
    ("1_0.5", "double", 10.5),
    ("+.inf", "double", "inf"),
    ("٣", "int", 3),
]


def expecting(load: Load, kind: str, condition: str) -> Job:
    decode = f"{{value: {{format: json, schema: {{columns: {{c: '{kind}'}}}}}}, expect: {{c: {condition}}}}}"
    return load(text_of("DECODE", "y").rpartition("decode:")[0] + f"decode: {decode}")


def planned_by(rules: DecodingRules) -> RunPlan:
    return RunPlan(
        "run", "incremental", "incremental", "app", 1, "", "{}", None, {}, (), {}, decoding_rules=rules.version
    )


@pytest.mark.parametrize(("text", "kind", "number"), ODD)
def test_a_number_that_is_read_in_several_ways_is_refused(load: Load, text: str, kind: str, number: Any) -> None:
    """Of a list, quoted or not, of a comparison, and of both ends; where a run is planned by the newest rules."""
    for condition in (f"[2, {text}]", f"[2, '{text}']", f"'>= {text}'", f"'between {text} and 99'"):
        job = expecting(load, kind, condition)
        (fault,) = decode_faults(job)
        assert (fault.path, "not read as the same number everywhere: write " in fault.message) == (
            "decode.expect.c",
            True,
        )
        assert float(fault.message.rpartition("write ")[2]) == float(number)
        with pytest.raises(ConfigurationError):
            refuse_odd_numbers(job, planned_by(NEWEST), JobState(job.name, "ledger"))
        refuse_odd_numbers(job, planned_by(FIRST), JobState(job.name, "ledger"))
        assert decode_faults(job, strict=False) == (), "a planned run goes on"
    assert decode_faults(expecting(load, "string", f"[2, {text}]")) == (), "it is a text"


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [("int", "1", "3"), ("string", "a", "b"), ("date", "2024-01-01", "2024-01-02"), ("decimal(9,2)", "9.5", "10")],
)
def test_ends_that_no_value_is_between_are_refused(load: Load, kind: str, low: str, high: str) -> None:
    wrong = expecting(load, kind, f"between {high} and {low}")
    (fault,) = decode_faults(wrong)
    assert fault.message == f"no value is between {high} and {low}: write between {low} and {high}"
    assert decode_faults(expecting(load, kind, f"between {low} and {high}")) == ()
    assert decode_faults(expecting(load, kind, f"between {low} and {low}")) == ()
    assert decode_faults(wrong, strict=False) == ()


@pytest.mark.parametrize("key", ["max_nulled", "max"])
def test_a_maximum_of_records_is_a_number_without_quotes(load: Load, faults: Faults, key: str) -> None:
    def text(value: str) -> str:
        error, most = ("set_null", f", max_nulled: {value}") if key == "max_nulled" else ("dead_letter", "")
        letters = f", dead_letters: {{path: ./dead, max: {value}}}" if key == "max" else ""
        decode = f"{{{VALUE}, on_error: {error}{most}}}"
        return text_of("DECODE", "y").rpartition("sink:")[0] + f"sink: {{path: ./orders{letters}}}\ndecode: {decode}"

    for value in ("4", "0", "1%", "'1 %'", "0.5%", "100%"):
        job = load(text(value))
        assert job_from_document(job.pinned()).config_hash == job.config_hash
    for value in ("'4'", "'007'", "'1_0'", "007%", "'١%'", "'+4'", "4.0", "101%", "-1", "true"):
        assert [fault.path.rpartition(".")[2] for fault in faults(text(value))] == [key], value
    assert faults(text("'4'"))[0].remedy == "write 4, without quotes"
