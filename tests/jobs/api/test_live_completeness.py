"""Every API that a client may call has its live test, and no version that the broker offers is left out."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from kseg.client.protocol.registry import API_BY_NAME
from kseg.etl.errors import ConfigurationError
from kseg.jobs.api.calling import call

pytestmark = pytest.mark.broker
HERE = Path(__file__).parent


def functions() -> set[str]:
    """The names of all functions of the live tests that are called with a version, without their underscores."""
    texts = [file.read_text(encoding="utf-8") for file in HERE.glob("test_live_*.py")]
    found = {
        name for text in texts for name in re.findall(r"^def (\w+)\(live: Live, version: int\) -> None", text, re.M)
    }
    return {name.replace("_", "") for name in found}


@pytest.mark.rule(5)
def test_every_api_that_a_client_may_call_is_called() -> None:
    called = {name.lower() for name, api in API_BY_NAME.items() if api.scope == "client"}
    assert called == functions()


@pytest.mark.rule(59)
def test_no_version_that_the_broker_offers_is_left_out(live: Any) -> None:
    client_apis = [api for api in API_BY_NAME.values() if api.scope == "client"]
    offered = {
        (api.name, version)
        for api in client_apis
        for low, high in [live.offered().get(api.key, (0, -1))]
        for version in range(low, high + 1)
    }
    tried = {(api.name, v) for api in client_apis for v in range(api.versions.highest + 1) if not api.deprecated.has(v)}
    # These three are named for the sake of old clients; a broker closes the connection if they are sent (KAFKA-18659).
    assert offered - tried == {("Produce", version) for version in range(3)}
    assert len(offered) > 200
    # No client metrics without a plugin that takes them.
    not_offered = {name for name, _ in tried} - {name for name, _ in offered}
    assert not_offered <= {"GetTelemetrySubscriptions", "PushTelemetry"}


@pytest.mark.rule(257)
def test_a_codec_only_api_is_not_called(live: Any) -> None:
    with pytest.raises(ConfigurationError, match="among brokers and controllers"):
        call(live.cluster, API_BY_NAME["Vote"], {})
