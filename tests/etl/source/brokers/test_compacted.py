"""Which topics are compacted, if some of their settings cannot be read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kseg.client.admin import configs
from kseg.client.cluster.results import Results
from kseg.client.errors import AuthorizationFailed, KafkaError, RequestTimedOut, UnsupportedVersion
from kseg.etl.source.brokers.logs import BrokerLogs


def compacted(monkeypatch: pytest.MonkeyPatch, **outcomes: str | KafkaError) -> frozenset[str]:
    """outcomes: each topic's cleanup policy, or the error that is returned for the topic."""

    def describe(_: Any, resources: Any, **__: Any) -> Results[Any, Any]:
        outcome = {r: outcomes[r.name] for r in resources}
        return Results(
            {
                r: one if isinstance(one, KafkaError) else {"cleanup.policy": SimpleNamespace(value=one)}
                for r, one in outcome.items()
            }
        )

    monkeypatch.setattr(configs, "describe_configs", describe)
    return BrokerLogs(None).compacted(set(outcomes))  # type: ignore[arg-type]


def test_a_topic_whose_settings_may_not_be_read_counts_as_not_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = compacted(monkeypatch, a="compact", b="delete", c="compact,delete", d=AuthorizationFailed("denied"))
    assert found == {"a", "c"}


def test_brokers_that_cannot_be_asked_for_settings_have_no_compacted_topics(monkeypatch: pytest.MonkeyPatch) -> None:
    def too_old(*_: Any, **__: Any) -> None:
        raise UnsupportedVersion("the broker is too old")

    monkeypatch.setattr(configs, "describe_configs", too_old)
    assert BrokerLogs(None).compacted({"a"}) == frozenset()  # type: ignore[arg-type]


def test_an_answer_that_is_missing_for_now_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Taken for "not compacted", it made a lasting failure of an account out of a broker's restart."""
    with pytest.raises(RequestTimedOut):
        compacted(monkeypatch, a="compact", b=RequestTimedOut("the broker did not respond in time"))
