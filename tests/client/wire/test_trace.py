"""A line for each request and each answer, and tallies: over a scripted broker on a real socket."""

from __future__ import annotations

import base64
import io
import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kseg.client.errors import KafkaError
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.connection import (
    ApiVersionsRequest,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kseg.client.protocol.messages.fetch import FetchRequest, FetchResponse
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kseg.client.protocol.messages.produce import ProduceRequest
from kseg.client.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from kseg.client.protocol.messages.topics import CreateTopicsRequest, CreateTopicsResponse
from kseg.client.protocol.registry import API_BY_KEY
from kseg.client.retry import Deadline
from kseg.client.wire import trace
from kseg.client.wire.connection import Answer, Open
from kseg.etl.source.cost import since

LINE = re.compile(
    r"\d\d:\d\d:\d\d\.\d{3} (?P<way>->|<-|!!) (?P<broker>.+?) (?P<api>\w+) v(?P<version>\d+) id=(?P<id>\d+)"
)


@pytest.fixture
def lines() -> Iterator[Callable[[], list[str]]]:
    """Turns the trace on; gives what it has told so far."""
    out = io.StringIO()
    handler = trace.enable(out)
    yield lambda: out.getvalue().splitlines()
    trace.disable(handler)


@pytest.fixture
def traffic() -> trace.Traffic:
    trace.TRAFFIC.reset()
    return trace.TRAFFIC


def soon() -> Deadline:
    return Deadline.after(5)


@pytest.mark.rule(266)
def test_a_request_and_its_answer_are_a_line_each(fake: Any, connect: Any, lines: Callable[[], list[str]]) -> None:
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    with connect(fake.bootstrap_servers) as cluster:
        cluster.send(ListGroupsRequest())
    [sent, received] = [line for line in lines() if " ListGroups " in line]
    out, back = LINE.match(sent), LINE.match(received)
    assert out is not None
    assert back is not None
    assert (out["way"], back["way"]) == ("->", "<-")
    assert out["broker"] == f"1 ({fake.bootstrap_servers})"
    seen = fake.requests(ListGroupsRequest)[0]
    assert (int(out["version"]), int(out["id"])) == (seen.version, seen.correlation_id)
    assert (back["version"], back["id"]) == (out["version"], out["id"])
    assert re.search(r" bytes=\d+$", sent)
    assert re.search(r" bytes=\d+ ms=\d+\.\d$", received)


def test_bytes_are_those_of_the_whole_frame(fake: Any, connect: Any, lines: Callable[[], list[str]]) -> None:
    # Size, correlation id, an empty tagged section, then throttle time, error code, an empty array, another section.
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    fake.ranges[ListGroupsRequest.KEY] = (4, 4)
    with connect(fake.bootstrap_servers) as cluster:
        cluster.send(ListGroupsRequest())
    [received] = [line for line in lines() if "<-" in line and " ListGroups v4 " in line]
    assert f" bytes={4 + 4 + 1 + 4 + 2 + 1 + 1} " in received


def test_error_codes_are_named_wherever_they_stand(fake: Any, connect: Any, lines: Callable[[], list[str]]) -> None:
    code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    coordinator = FindCoordinatorResponse.Coordinator(key="g", error_code=code)
    fake.on(FindCoordinatorRequest, lambda _: FindCoordinatorResponse(coordinators=[coordinator]))
    with connect(fake.bootstrap_servers) as cluster:
        cluster.send(FindCoordinatorRequest(coordinator_keys=["g"]))
    assert next(line for line in lines() if "<- " in line and "FindCoordinator" in line).endswith(
        " error=GROUP_AUTHORIZATION_FAILED"
    )


@pytest.mark.rule(265)
def test_a_throttled_answer_says_for_how_long(
    fake: Any, connect: Any, lines: Callable[[], list[str]], traffic: trace.Traffic
) -> None:
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse(throttle_time_ms=3))
    with connect(fake.bootstrap_servers) as cluster:
        cluster.send(ListGroupsRequest())
        cluster.send(ListGroupsRequest())
    assert sum(" throttled_ms=3" in line for line in lines()) == 2
    [tally] = [tally for (_, api, _), tally in traffic.snapshot().items() if api == "ListGroups" and tally.requests]
    assert tally.throttled_ms == 6


def test_a_connection_that_breaks_tells_the_request_it_broke_under(
    fake: Any, fakes: Any, connect: Any, lines: Callable[[], list[str]]
) -> None:
    fake.on(ListGroupsRequest, lambda _: fakes.CLOSE)
    with connect(fake.bootstrap_servers, default_api_timeout_ms=2000) as cluster, pytest.raises(KafkaError):
        cluster.send(ListGroupsRequest())
    broken = [line for line in lines() if " !! " in line]
    assert broken
    assert all(re.search(r"ListGroups v\d+ id=\d+ ms=\d+\.\d error=\w+$", line) for line in broken)


def test_no_value_of_a_message_is_in_a_line(fake: Any, connect: Any, lines: Callable[[], list[str]]) -> None:
    fake.on(FindCoordinatorRequest, lambda _: FindCoordinatorResponse(error_message="s3cr3t back"))
    fake.ranges[FindCoordinatorRequest.KEY] = (0, 3)
    with connect(fake.bootstrap_servers) as cluster:
        cluster.send(FindCoordinatorRequest(key="s3cr3t out"))
    assert "FindCoordinator" in "".join(lines())
    assert "s3cr3t" not in "".join(lines())


SECRET = b"s3cr3t-s3cr3t-s3cr3t"


@pytest.mark.parametrize(
    ("request_", "response"),
    [
        (SaslAuthenticateRequest(auth_bytes=b"\0alice\0" + SECRET), SaslAuthenticateResponse(auth_bytes=SECRET)),
        (CreateDelegationTokenRequest(), CreateDelegationTokenResponse(hmac=SECRET)),
        (RenewDelegationTokenRequest(hmac=SECRET), RenewDelegationTokenResponse(error_code=62)),
        (
            AlterUserScramCredentialsRequest(
                upsertions=[
                    AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                        name="alice", salt=SECRET, salted_password=SECRET
                    )
                ]
            ),
            AlterUserScramCredentialsResponse(),
        ),
        (
            CreateTopicsRequest(
                topics=[
                    CreateTopicsRequest.CreatableTopic(
                        configs=[
                            CreateTopicsRequest.CreatableTopicConfig(name="ssl.key.password", value=SECRET.decode())
                        ]
                    )
                ]
            ),
            CreateTopicsResponse(),
        ),
    ],
    ids=lambda message: type(message).__name__,
)
def test_no_secret_is_in_a_line(request_: Any, response: Any, lines: Callable[[], list[str]]) -> None:
    api = API_BY_KEY[request_.KEY]
    version = api.versions.highest
    tap = trace.Tap()
    tap.sent("1 (localhost:9092)", request_, version, 7, 100)
    tap.received("1 (localhost:9092)", Answer(Open(7, api, version), response, 100))
    tap.sent("1 (localhost:9092)", request_, version, 8, 100)
    tap.failed("1 (localhost:9092)", KafkaError(f"broke: {SECRET!r}"))
    told = lines()
    assert len(told) == 4
    for form in (SECRET.decode(), SECRET.hex(), base64.b64encode(SECRET).decode()):
        assert form not in "".join(told)


@pytest.mark.rule(14)
def test_a_produce_without_acks_is_done_when_it_is_written(
    fake: Any, fakes: Any, connect: Any, lines: Callable[[], list[str]], traffic: trace.Traffic
) -> None:
    fake.on(ProduceRequest, lambda _: fakes.SILENT)
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    with connect(fake.bootstrap_servers) as cluster:
        connection = cluster.retry(cluster.any_connection)
        assert connection.call(ProduceRequest(acks=0, timeout_ms=1000), 9, deadline=soon()) is None
        assert connection.in_flight == 0
        connection.call(ListGroupsRequest(), 4, deadline=soon())  # the next answer belongs to the next request
    assert [line for line in lines() if "<-" in line and "Produce" in line] == []
    [tally] = [tally for (_, api, _), tally in traffic.snapshot().items() if api == "Produce" and tally.requests]
    assert (tally.requests, tally.responses) == (1, 0)


def test_traffic_is_counted_by_broker_api_and_version_without_a_trace(
    fake: Any, connect: Any, traffic: trace.Traffic
) -> None:
    fake.on(ListGroupsRequest, lambda _: ListGroupsResponse())
    with connect(fake.bootstrap_servers) as cluster:
        for _ in range(3):
            cluster.send(ListGroupsRequest())
    tallies = traffic.snapshot()
    tally = tallies[f"1 ({fake.bootstrap_servers})", "ListGroups", fake.requests(ListGroupsRequest)[0].version]
    assert (tally.requests, tally.responses) == (3, 3)
    assert tally.bytes_out > 0
    assert tally.bytes_in == 3 * 17
    assert any(api == "ApiVersions" for _, api, _ in tallies)


def test_between_two_times_there_are_never_more_errors_than_requests(traffic: trace.Traffic) -> None:
    """Two requests were sent before, and their connection breaks after."""
    tap = trace.Tap()
    for number in (1, 2):
        tap.sent("1 (localhost:9092)", ListGroupsRequest(), 4, number, 100)
    before = traffic.snapshot()
    tap.failed("1 (localhost:9092)", KafkaError("broke"))
    [line] = since(before)
    assert (line.requests, line.responses, line.errors) == (2, 0, 2)


def test_counting_costs_less_than_a_percent_of_a_fetch(fake: Any, connect: Any) -> None:
    """Of a Fetch answer of the default size, in processor time, the best of several for both."""
    records = bytes(8 * 1024 * 1024)
    partition = FetchResponse.PartitionData(records=records)
    answer = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[partition])])
    fake.on(FetchRequest, lambda _: answer)
    with connect(fake.bootstrap_servers) as cluster:
        connection = cluster.retry(cluster.any_connection)
        whole = best(lambda: connection.call(FetchRequest(), 12, deadline=soon()), times=5)
    tap = trace.Tap()
    told = Answer(Open(0, API_BY_KEY[FetchRequest.KEY], 12), answer, len(records))

    def tell() -> None:
        tap.sent("1 (localhost:9092)", FetchRequest(), 12, 0, 30)
        tap.received("1 (localhost:9092)", told)

    assert best(tell, times=50) < whole / 100


def best(work: Callable[[], Any], *, times: int) -> float:
    """The least processor time of this thread, in seconds."""
    took = []
    for _ in range(times):
        began = time.thread_time()
        work()
        took.append(time.thread_time() - began)
    return min(took)


def test_the_environment_turns_it_on_in_workers(
    fake: Any, connect: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KSEG_TRACE", "1")
    with connect(fake.bootstrap_servers) as cluster:
        cluster.metadata([])
    [handler] = trace._enabled
    trace.disable(handler)
    err = capsys.readouterr().err
    assert "-> " in err
    assert ApiVersionsRequest.__name__.removesuffix("Request") in err


def test_debug_logging_of_the_client_is_no_trace(fake: Any, connect: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="kseg.client")
    with connect(fake.bootstrap_servers) as cluster:
        cluster.metadata([])
    assert [record for record in caplog.records if record.name == "kseg.client.wire.trace"] == []
