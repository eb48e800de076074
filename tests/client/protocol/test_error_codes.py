"""Error codes, API names and header versions against the Java clients'."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from kseg.client.protocol.error_codes import ErrorCode, UnknownErrorCode
from kseg.client.protocol.registry import API_BY_KEY, API_BY_NAME


def facts(lines: list[str], kind: str) -> list[list[str]]:
    return [line.split()[1:] for line in lines if line.startswith(f"{kind} ")]


@pytest.mark.rule(28, "268-270")
def test_codes_names_and_classes_are_javas(java: Callable[..., list[str]]) -> None:
    lines = java("ProtocolFacts.java")
    told = {
        int(code): (name, retriable == "true", metadata == "true", coordinator == "true")
        for code, name, retriable, metadata, coordinator in facts(lines, "error")
    }
    ours = {
        int(code): (code.name, code.retriable, code.refresh_metadata, code.refresh_coordinator) for code in ErrorCode
    }
    assert ours == told


@pytest.mark.rule(18, 20)
def test_names_versions_and_headers_are_javas(
    java: Callable[..., list[str]], old_java: Callable[..., list[str]]
) -> None:
    """The newest client's where it has the version, the old one's for what has been dropped."""
    names: dict[int, tuple[str, int]] = {}
    headers: dict[tuple[int, int], tuple[int, int]] = {}
    for ask in (old_java, java):
        lines = ask("ApiFacts.java")
        names |= {int(key): (name, int(highest)) for key, name, highest in facts(lines, "api") if int(highest) >= 0}
        headers |= {(int(key), int(version)): (int(q), int(r)) for key, version, q, r in facts(lines, "headers")}
    assert {key: (api.name, api.versions.highest) for key, api in API_BY_KEY.items()} == names
    for key, api in API_BY_KEY.items():
        for version in range(api.versions.lowest, api.versions.highest + 1):
            ours_here = api.request_header_version(version), api.response_header_version(version)
            assert ours_here == headers[key, version], (api.name, version)
    assert API_BY_NAME["ControlledShutdown"].request_header_version(0) == 0


def test_a_code_is_its_number_and_survives_pickling() -> None:
    code = ErrorCode.of(6)
    assert code == 6
    assert code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert pickle.loads(pickle.dumps(code)) is code
    assert all(code.message for code in ErrorCode)


@pytest.mark.rule(272)
def test_an_unknown_code_keeps_its_number_and_is_not_retriable() -> None:
    code = ErrorCode.of(999)
    assert isinstance(code, UnknownErrorCode)
    assert code == 999
    assert (code.retriable, code.refresh_metadata, code.refresh_coordinator) == (False, False, False)
    assert "999" in code.message
    assert code.name == "UNKNOWN_ERROR_CODE_999"
    assert pickle.loads(pickle.dumps(code)) == 999
