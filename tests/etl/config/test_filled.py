"""A key that takes a number, true or false takes an environment variable with that text; other keys take it as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import pytest
import yaml
from jsonschema import Draft202012Validator
from pydantic import BaseModel

from kseg.etl.config.filled import below
from kseg.etl.config.job import Job
from kseg.etl.config.scheduling import Airflow
from kseg.etl.config.schema import job_schema
from kseg.etl.config.values import fields_by_key
from kseg.etl.errors import ConfigurationError

VALIDATOR = Draft202012Validator(job_schema())
LETTERS = {"decode": {"value": {"format": "long"}, "on_error": "dead_letter"}}
NULLS = {"decode": {"value": {"format": "long"}, "on_error": "set_null"}}
JSON = {"format": "json", "schema": {"columns": {"id": "bigint"}}}
REGISTRY = {"registry/url": "http://127.0.0.1:1", "decode": {"value": {"format": "avro", "schema": "registry"}}}
BY_TOPIC = {"registry/url": "http://127.0.0.1:1", "decode": {"*": {"value": {"format": "avro", "schema": "registry"}}}}
KEYS_TOO = {
    "registry/url": "http://127.0.0.1:1",
    "decode": {key: {"format": "avro", "schema": "registry", "into": "struct"} for key in ("key", "value")},
}
ASSIGNED = {"source": {"assign": {"orders": [0]}}}

#: By the place in the models: what else a job file needs, where the value is in it, and the value.
KEYS: dict[str, tuple[dict[str, Any], str, Any]] = {
    "version": ({}, "version", 1),
    "source.assign.*[]": (ASSIGNED, "source/assign/orders", [3]),
    "source.starting_offsets.*.*": ({}, "source/starting_offsets/orders/0", 5),
    "source.ending_offsets.*.*": ({}, "source/ending_offsets/orders/0", 7),
    "source.max_records_per_task": ({}, "source/max_records_per_task", 500),
    "source.max_batch_bytes": ({}, "source/max_batch_bytes", 2_000_000),
    "source.provenance": ({}, "source/provenance", True),
    "decode.key.max_columns": (KEYS_TOO, "decode/key/max_columns", 12),
    "decode.value.max_columns": (REGISTRY, "decode/value/max_columns", 12),
    "decode.max_nulled": (NULLS, "decode/max_nulled", 4),
    "decode.*.key.max_columns": (KEYS_TOO | {"decode": {"*": KEYS_TOO["decode"]}}, "decode/*/key/max_columns", 12),
    "decode.*.value.max_columns": (BY_TOPIC, "decode/*/value/max_columns", 12),
    "decode.*.max_nulled": ({"decode": {"*": NULLS["decode"]}}, "decode/*/max_nulled", 4),
    "sink.partition_by[].bucket[0]": (
        {"decode": {"value": JSON}, "sink/partition_by": [{"bucket": [2, "id"]}]},
        "sink/partition_by",
        [{"bucket": [16, "id"]}],
    ),
    "sink.merge_schema": ({}, "sink/merge_schema", True),
    "sink.widen": ({}, "sink/widen", True),
    "sink.single_driver": ({}, "sink/single_driver", True),
    "sink.addresses": ({}, "sink/addresses", False),
    "sink.dead_letters.max": (LETTERS, "sink/dead_letters/max", 4),
    "run.max_records": ({}, "run/max_records", 500),
    "run.max_bytes": ({}, "run/max_bytes", 500),
    "run.local_below": ({}, "run/local_below", 500),
    "run.task_attempts": ({}, "run/task_attempts", 2),
    "reporting.openlineage.enabled": ({}, "reporting/openlineage/enabled", False),
}
#: Text that a key takes by itself: names that look like numbers, durations, times, percentages, literals.
TEXTS: dict[str, tuple[dict[str, Any], str]] = {
    "source/topics": ({}, "2026"),
    "source/pattern": ({"source/topics": ...}, "0100"),
    "group": ({}, "010"),
    "name": ({}, "yes"),
    "source/starting_offsets": ({}, "latest"),
    "source/starting_offsets/timestamp": ({}, "2026-01-01T00:00:00Z"),
    "run/lease": ({}, "90s"),
    "interval/max_wait": ({}, "2h"),
    "sink/dead_letters/retention": (LETTERS, "30d"),
    "sink/dead_letters/max": (LETTERS, "0.5%"),
    "decode/max_nulled": (NULLS, "2 %"),
    "decode/on_error": (LETTERS, "dead_letter"),
    "decode/expect/id": ({"decode": {"value": JSON}}, ">= 0"),
    "decode/value/schema/columns/id": ({"decode": {"value": JSON}}, "bigint"),
}


def not_text(kind: Any, place: str = "") -> Iterator[str]:
    """The places below a kind of value that take numbers, true or false."""
    if kind in (int, float, bool):
        yield place
    elif get_origin(kind) is dict:
        for inner in below((kind,), "*"):
            yield from not_text(inner, f"{place}.*")
    elif get_origin(kind) is tuple:
        several = get_args(kind)[-1] is Ellipsis
        for index in range(1 if several else len(get_args(kind))):
            for inner in below((kind,), index):
                yield from not_text(inner, f"{place}[{'' if several else index}]")
    elif get_origin(kind) is None and issubclass(kind, BaseModel) and kind is not Airflow:
        for key in fields_by_key(kind):
            for inner in below((kind,), key):
                yield from not_text(inner, f"{place}.{key}".removeprefix("."))


def by_reference(value: Any, env: dict[str, str]) -> Any:
    """The same with a variable in place of each scalar."""
    if isinstance(value, dict):
        return {key: by_reference(part, env) for key, part in value.items()}
    if isinstance(value, list):
        return [by_reference(part, env) for part in value]
    name = f"V{len(env)}"
    env[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return f"${{{name}}}"


def test_every_key_that_takes_a_number_or_a_boolean_is_in_the_table() -> None:
    assert set(not_text(Job)) == KEYS.keys()


@pytest.mark.parametrize("place", KEYS)
def test_a_variable_is_what_it_would_be_in_the_file(place: str, load: Callable[..., Job]) -> None:
    beside, path, value = KEYS[place]
    env: dict[str, str] = {}
    found, written = load(beside | {path: by_reference(value, env)}, env), load(beside | {path: value})
    assert (found, found.config_hash) == (written, written.config_hash)
    assert found.pinned() == written.pinned()


@pytest.mark.parametrize("place", KEYS)
def test_the_schema_of_job_files_accepts_a_variable(place: str, job_file: Callable[..., Path]) -> None:
    beside, path, value = KEYS[place]
    document = json.loads(json.dumps(yaml.safe_load(job_file(beside | {path: by_reference(value, {})}).read_text())))
    assert not list(VALIDATOR.iter_errors(document))


@pytest.mark.parametrize("path", TEXTS)
def test_a_variable_of_a_key_that_takes_text_is_text(path: str, load: Callable[..., Job]) -> None:
    beside, text = TEXTS[path]
    several = path == "source/topics"
    found = load(beside | {path: ["${V}"] if several else "${V}"}, {"V": text})
    assert found == load(beside | {path: [text] if several else text})


@pytest.mark.parametrize("text", ["5", "-1.5", "true"])
def test_a_literal_of_an_expectation_is_the_text_of_its_variable(text: str, load: Callable[..., Job]) -> None:
    decode = {"value": {"format": "json", "schema": {"columns": {"id": "string"}}}, "expect": {"id": ["${V}", "b"]}}
    assert load({"decode": decode}, {"V": text}).decode.expect == {"id": (text, "b")}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("run/max_records", "010", "leading zero"),
        ("run/max_records", "1_000", "underscore"),
        ("run/max_records", "many", "is text where a whole number is expected"),
        ("run/max_records", "", "is text where a whole number is expected"),
        ("run/max_records", "9" * 5000, "is text where a whole number is expected"),
        ("run/max_records", "1.5", "is text where a whole number is expected"),
        ("run/max_records", "true", "is true or false where a whole number is expected"),
        ("run/task_attempts", "101", "is too large"),
        ("sink/widen", "1", "is text where true or false is expected"),
        ("sink/widen", '"true"', "is text where true or false is expected"),
        ("sink/dead_letters/max", "010", "leading zero"),
        ("sink/dead_letters/max", "-1", "is no number of records"),
        ("sink/dead_letters/max", "lots", "is no number of records"),
        ("source/starting_offsets/orders/0", "-3", "is too small"),
        ("group", "${V}", None),
    ],
)
def test_what_a_key_does_not_take_is_refused_in_its_place(
    path: str, text: str, message: str | None, load: Callable[..., Job]
) -> None:
    beside = LETTERS if "dead_letters" in path else {}
    if message is None:  # what a variable has is not filled in again
        assert load(beside | {path: "${V}"}, {"V": text}).group == text
        return
    with pytest.raises(ConfigurationError, match=message) as caught:
        load(beside | {path: "${V}"}, {"V": text})
    assert [fault.path for fault in caught.value.faults] == [path.replace("/", ".")]


def test_what_is_quoted_on_purpose_stays_text(load: Callable[..., Job]) -> None:
    for path in ("run/max_records", "sink/dead_letters/max"):
        with pytest.raises(ConfigurationError, match=r"is text where a (whole )?number"):
            load(LETTERS | {path: "4"})


def test_a_reference_within_a_longer_text_is_part_of_it(load: Callable[..., Job]) -> None:
    job = load({"run/max_records": "${MILLIONS}000000", "group": "g-${MILLIONS}"}, {"MILLIONS": "3"})
    assert (job.run.max_records, job.group) == (3_000_000, "g-3")
