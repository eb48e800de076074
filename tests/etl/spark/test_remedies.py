"""Errors that leave Spark's data source have their remedy in the first line."""

from __future__ import annotations

import pickle

import pytest

from kseg.etl.errors import ConfigurationError, KsegError, Refused
from kseg.etl.spark.remedies import RemediesTold


@RemediesTold()
def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Refused("gone", "the log is gone\nsince noon", remedy="wait", topic="t"), "the log is gone (topic=t) — wait"),
        (Refused("gone", "the log is gone"), "the log is gone"),
        (ConfigurationError.of("subscribe", "is empty", "name a topic"), "subscribe: is empty — name a topic"),
    ],
)
def test_the_first_line_has_the_remedy_once(error: KsegError, said: str) -> None:
    with pytest.raises(type(error)) as caught:
        fail(error)
    assert str(caught.value).splitlines()[0] == said
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_elsewhere_the_remedy_has_a_place_of_its_own() -> None:
    assert str(Refused("gone", "the log is gone", remedy="wait", topic="t")) == "the log is gone (topic=t)"


def test_errors_of_others_are_left_as_they_are() -> None:
    with pytest.raises(ValueError, match=r"^no number$"):
        fail(ValueError("no number"))
