"""Typed errors as JSON: every class comes back as it was, and a document makes nothing but our own errors."""

from __future__ import annotations

import importlib
import json
import pkgutil
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kseg.client
import kseg.etl
import kseg.segment_reader
from kseg.client.errors import ConfigFault, KafkaError, SomeBrokersFailed, UnknownTopic, error_from_code
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import ConfigurationError, Diagnostic, ExitCode, KsegError, Refused
from kseg.etl.source.errors import OffsetsLost, WorkerError
from kseg.etl.tasks.error_json import ERRORS, TYPED, error_document, error_of_document
from kseg.segment_reader.errors import BatchAddress, RecordFormatError
from kseg.segment_reader.log.errors import LogFileError
from skips import FULL


def modules() -> list[str]:
    packages = (kseg.client, kseg.etl, kseg.segment_reader)
    return [
        module.name
        for package in packages
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    ]


def error_classes(module: str) -> list[type[Any]]:
    found = vars(importlib.import_module(module)).values()
    return [cls for cls in found if isinstance(cls, type) and issubclass(cls, TYPED) and cls.__module__ == module]


CLASSES = [cls for module in sorted(ERRORS) for cls in error_classes(module)]


def test_every_typed_error_is_registered() -> None:
    """A class in a module that is not listed in `error_json.ERRORS` would reach the driver as its base class."""
    elsewhere = [
        cls.__qualname__
        for module in modules()
        if module not in ERRORS and "__main__" not in module
        for cls in error_classes(module)
    ]
    assert elsewhere == []


texts = st.text(max_size=20)
numbers = st.integers(-(2**63), 2**63)
partitions = st.builds(TopicPartition, texts, numbers)
scalars = (
    st.none()
    | st.booleans()
    | numbers
    | texts
    | st.floats(allow_nan=False)
    | st.sampled_from(ErrorCode)
    | st.integers(200, 32767).map(ErrorCode.of)
    | partitions
    | st.datetimes(timezones=st.just(UTC))
    | st.builds(Diagnostic, texts, texts, st.none() | texts, st.none() | numbers)
    | st.builds(ConfigFault, texts, texts, texts)
    | st.builds(BatchAddress, texts, numbers, numbers, numbers, st.none() | texts)
    | st.builds(UnknownTopic, texts, topic=texts, partition=numbers)
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(texts | numbers | partitions, inner, max_size=3)
    ),
    max_leaves=5,
)
names = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True).map(lambda name: f"own_{name}")


def made(cls: type[Any], draw: Any) -> Any:
    """An instance as its base class makes it, with attributes of any values that errors have."""
    error = cls.__new__(cls)
    if issubclass(cls, KsegError):
        address = draw(st.dictionaries(names, texts | numbers, max_size=3))
        KsegError.__init__(error, draw(texts), remedy=draw(st.none() | texts), **address)
        if issubclass(cls, ConfigurationError):
            error.faults, error.file = tuple(draw(st.lists(st.builds(Diagnostic, texts, texts), max_size=2))), None
        elif issubclass(cls, Refused):
            error.code = draw(texts)
        error.retry_after = error.open = None
    elif issubclass(cls, KafkaError):
        code = draw(st.none() | st.sampled_from(ErrorCode) | st.integers(200, 32767).map(ErrorCode.of))
        retriable = draw(st.none() | st.booleans())
        KafkaError.__init__(error, draw(texts), code=code, retriable=retriable, topic=draw(st.none() | texts))
    elif issubclass(cls, RecordFormatError):
        RecordFormatError.__init__(error, draw(st.builds(BatchAddress, texts, numbers, numbers, numbers)), draw(texts))
    else:
        LogFileError.__init__(error, draw(texts), draw(st.none() | numbers), draw(texts))
    error.__dict__.update(draw(st.dictionaries(names, values, max_size=3)))
    return error


def same(one: Any, other: Any) -> bool:
    """Errors do not compare, and may be attributes of others."""
    if isinstance(one, BaseException):
        return type(one) is type(other) and str(one) == str(other) and same(one.__dict__, other.__dict__)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple | list):
        return type(one) is type(other) and len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
@settings(max_examples=20 if FULL else 5)
@given(data=st.data())
def test_an_error_of_each_class_comes_back_as_it_was(cls: type[Any], data: Any) -> None:
    error = made(cls, data.draw)
    for note in data.draw(st.lists(texts, max_size=2)):
        error.add_note(note)
    found = error_of_document(json.loads(json.dumps(error_document(error))))
    assert same(found, error)
    assert found.args == error.args
    assert getattr(found, "__notes__", []) == getattr(error, "__notes__", [])


ACTUAL = [
    OffsetsLost("orders", 1, 5, 9, "truncation"),
    ConfigurationError([Diagnostic("sink.path", "is missing", None, 3)], file="job.yaml"),
    error_from_code(29, "Fetch", topic="orders", partition=1),
    error_from_code(12345, "Fetch"),
    SomeBrokersFailed("two failed", errors={1: UnknownTopic("gone", topic="t")}, answers={2: 5}),
]


@pytest.mark.parametrize("error", ACTUAL, ids=lambda error: type(error).__name__)
def test_errors_as_they_are_raised_come_back_as_they_were(error: Any) -> None:
    found: Any = error_of_document(json.loads(json.dumps(error_document(error))))
    assert same(found, error)
    if isinstance(error, KsegError):
        assert found.to_json() == error.to_json()


def test_what_an_error_was_raised_from_comes_along() -> None:
    try:
        try:
            try:
                raise ZeroDivisionError("by zero")
            except ZeroDivisionError as zero:
                raise UnknownTopic("gone", topic="t") from zero
        except UnknownTopic as unknown:
            raise Refused("some-code", "no") from unknown
    except Refused as refused:
        found = error_of_document(error_document(refused))
    assert isinstance(found, Refused)
    assert isinstance(found.__cause__, UnknownTopic)
    assert isinstance(found.__cause__.__cause__, WorkerError)
    assert str(found.__cause__.__cause__) == "ZeroDivisionError: by zero"
    assert found.to_json()["cause"] == "UnknownTopic: gone [topic=t]"


def test_an_error_of_a_users_class_comes_as_the_nearest_of_ours() -> None:
    class NoSuchCustomer(Refused):
        retriable = True

    found = error_of_document(error_document(NoSuchCustomer("no-customer", "unknown", customer=5)))
    assert type(found) is Refused
    assert (found.code, found.address, found.retriable) == ("no-customer", {"customer": 5}, True)


def test_a_value_without_a_form_in_json_comes_as_its_text() -> None:
    error = KsegError("odd")
    error.attachment = datetime  # type: ignore[attr-defined]
    found: Any = error_of_document(error_document(error))
    assert (type(found), found.attachment) == (KsegError, str(datetime))


# -- documents of others

PLAIN: dict[str, Any] = {
    "class": "kseg.etl.errors.KsegError",
    "text": "what happened",
    "args": ["what happened"],
    "fields": {"message": "what happened", "remedy": None, "address": {"map": []}},
    "notes": [],
    "cause": None,
}


def test_the_plain_document_is_an_error() -> None:
    assert type(error_of_document(PLAIN)) is KsegError


@pytest.mark.parametrize(
    "name",
    [
        "builtins.eval",
        "builtins.KeyError",
        "os.system",
        "subprocess.Popen",
        "kseg.etl.errors.ExitCode",
        "kseg.etl.errors.Diagnostic",
        "kseg.etl.errors.KsegError.__init__",
        "kseg.etl.errors.summary",
        "kseg.etl.source.errors.ConfigurationError",  # it is imported there, and defined elsewhere
        "kseg.client.errors.error_from_code",
        f"{KsegError.__module__}.Missing",
        "KsegError",
        "",
        None,
        5,
        ["kseg.etl.errors.KsegError"],
    ],
)
def test_a_class_that_is_not_registered_becomes_plain(name: Any) -> None:
    found = error_of_document(PLAIN | {"class": name})
    if name == "kseg.etl.source.errors.ConfigurationError":
        assert type(found) in (ConfigurationError, WorkerError)
    else:
        assert type(found) is WorkerError
        assert "what happened" in str(found)


@pytest.mark.parametrize(
    "changed",
    [
        {"fields": {"to_json": "x"}},
        {"fields": {"__class__": "x"}},
        {"fields": {"_private": 1}},
        {"fields": {"kind": "x"}},
        {"fields": PLAIN["fields"] | {"exit_code": 0}},
        {"fields": PLAIN["fields"] | {"retriable": "yes"}},
        {"fields": PLAIN["fields"] | {"address": 5}},
        {"fields": PLAIN["fields"] | {"message": 5}},
        {"fields": PLAIN["fields"] | {"x": {"Popen": ["ls"]}}},
        {"fields": PLAIN["fields"] | {"x": {"ErrorCode": ["no number"]}}},
        {"fields": PLAIN["fields"] | {"x": {"error": PLAIN | {"class": "os.system"}}}},
        {"fields": PLAIN["fields"] | {"x": {"tuple": [], "map": []}}},
        {"fields": {}},
        {"fields": None},
        {"notes": [5]},
        {"notes": "text"},
        {"args": None},
        {"cause": {"class": "os.system"}},
    ],
    ids=str,
)  # fmt: skip
def test_a_document_that_was_made_up_makes_no_harm(changed: dict[str, Any]) -> None:
    found = error_of_document(PLAIN | changed)
    assert type(found) in (WorkerError, KsegError)
    assert isinstance(str(found), str)
    assert found.exit_code is ExitCode.FAILED
    assert json.dumps(found.to_json())


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | texts
    | st.sampled_from([cls.__name__ for cls in CLASSES]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | st.sampled_from(["tuple", "map", "error", "ErrorCode"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    name=st.sampled_from([f"{cls.__module__}.{cls.__name__}" for cls in CLASSES]) | texts,
    fields=st.dictionaries(
        st.sampled_from(["message", "code", "address", "retriable", "faults", "topic"]) | texts, json_values, max_size=4
    )
    | json_values,
    rest=st.dictionaries(st.sampled_from(["text", "args", "notes", "cause"]), json_values),
)
def test_any_document_gives_an_error_of_ours_that_can_be_shown(name: str, fields: Any, rest: dict[str, Any]) -> None:
    found = error_of_document(PLAIN | {"class": name, "fields": fields} | rest)
    assert type(found) in CLASSES
    assert isinstance(str(found), str)


@given(json_values)
def test_whatever_else_json_holds_is_no_document(document: Any) -> None:
    assert isinstance(error_of_document(document), WorkerError)


def test_a_document_without_an_end_is_none() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert isinstance(error_of_document(PLAIN | {"fields": {"x": deep}}), WorkerError)
