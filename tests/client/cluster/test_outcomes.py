"""A connection lost after a request was written: what is sent again, what is found out first, what is told."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from kseg.client import BrokerUnavailable, TopicPartition, Transaction
from kseg.client.admin.tokens import create_token, expire_token
from kseg.client.admin.topics import NewTopic, create_topics, delete_topics
from kseg.client.errors import Fenced, OutcomeUnknown, RequestTimedOut
from kseg.client.producer import produce
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.groups import ListGroupsRequest, ListGroupsResponse
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.messages.produce import InitProducerIdRequest, InitProducerIdResponse, ProduceRequest
from kseg.client.protocol.messages.security import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from kseg.client.protocol.messages.topics import (
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kseg.client.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
)
from kseg.client.protocol.registry import API_BY_NAME
from kseg.client.protocol.routing import NOT_SENT, RetrySafety
from kseg.segment_reader.encode.batches import Record, encode_batch

TP = TopicPartition("t", 0)
CLIENTS = [name for name, api in API_BY_NAME.items() if api.scope == "client"]
#: Those that the client sends by itself when it connects, and Produce, which depends on its batches.
APART = {"ApiVersions", "Metadata", "FindCoordinator", "Produce"}


@pytest.mark.rule(87)
def test_every_api_declares_whether_it_may_be_sent_again():
    routes = {name: api.request.ROUTE for name, api in API_BY_NAME.items() if api.request.ROUTE is not NOT_SENT}
    assert set(CLIENTS) <= set(routes)
    assert all(route.verify_with for route in routes.values() if route.safety is RetrySafety.VERIFY_FIRST)
    assert not NOT_SENT.safety.allowed


@pytest.mark.rule(87)
@pytest.mark.parametrize("name", [name for name in CLIENTS if name not in APART])
def test_after_a_lost_answer_each_api_does_as_it_declares(fake: Any, fakes: Any, connect: Any, name: str):
    api = API_BY_NAME[name]
    fake.on(api.request, lambda _: fakes.CLOSE, lambda _: api.response())
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    if api.request.ROUTE.safety.allowed:
        cluster.send(api.request())
        assert len(fake.requests(api.request)) == 2
    else:
        with pytest.raises(OutcomeUnknown, match=name) as caught:
            cluster.send(api.request())
        assert len(fake.requests(api.request)) == 1
        assert not caught.value.retriable
        assert isinstance(caught.value.__cause__, BrokerUnavailable)
        assert caught.value.broker is not None


def test_an_answer_that_is_too_late_is_a_lost_one(fake: Any, fakes: Any, connect: Any):
    fake.on(CreateTopicsRequest, lambda _: fakes.SILENT)
    cluster = connect(fake.bootstrap_servers, request_timeout_ms=500)
    with pytest.raises(OutcomeUnknown) as caught:
        cluster.send(CreateTopicsRequest(), controller=True)
    assert isinstance(caught.value.__cause__, RequestTimedOut)


def test_a_broker_that_has_lost_the_controllers_answer_has_none(fake: Any, connect: Any):
    """It says REQUEST_TIMED_OUT: a second token would be one that nobody expires."""
    code = ErrorCode.REQUEST_TIMED_OUT
    fake.on(CreateDelegationTokenRequest, lambda _: CreateDelegationTokenResponse(error_code=code))
    with pytest.raises(OutcomeUnknown, match="REQUEST_TIMED_OUT"):
        create_token(connect(fake.bootstrap_servers, retry_backoff_ms=1))
    assert len(fake.requests(CreateDelegationTokenRequest)) == 1
    answers = iter([code, 0])
    fake.on(ExpireDelegationTokenRequest, lambda _: ExpireDelegationTokenResponse(error_code=next(answers)))
    expire_token(connect(fake.bootstrap_servers, retry_backoff_ms=1), b"x")
    assert len(fake.requests(ExpireDelegationTokenRequest)) == 2


def test_what_was_never_written_is_sent_to_the_next_broker(fakes: Any, connect: Any):
    brokers = fakes.cluster(2)
    brokers.on(CreateTopicsRequest, lambda _: CreateTopicsResponse())
    cluster = connect(brokers[2].bootstrap_servers, retry_backoff_ms=1)
    cluster.metadata([])
    brokers[1].stop()
    brokers.move_controller(2)
    cluster.send(CreateTopicsRequest(), controller=True)
    assert brokers.requests(CreateTopicsRequest) == {2: 1}


def test_an_error_of_looking_for_the_broker_is_no_lost_answer(fake: Any, fakes: Any, connect: Any):
    """The metadata answer was lost, the request itself was never sent."""
    fake.on(MetadataRequest, lambda _: fakes.CLOSE, fake.metadata)
    fake.on(CreateTopicsRequest, lambda _: CreateTopicsResponse())
    connect(fake.bootstrap_servers, retry_backoff_ms=1).send(CreateTopicsRequest(), controller=True)
    assert len(fake.requests(CreateTopicsRequest)) == 1


def test_a_request_that_knows_better_says_so(fake: Any, fakes: Any, connect: Any):
    fake.on(ListGroupsRequest, lambda _: fakes.CLOSE, lambda _: ListGroupsResponse())
    with pytest.raises(OutcomeUnknown):
        connect(fake.bootstrap_servers).send(ListGroupsRequest(), repeatable=False)
    fake.on(CreateTopicsRequest, lambda _: fakes.CLOSE, lambda _: CreateTopicsResponse())
    connect(fake.bootstrap_servers, retry_backoff_ms=1).send(CreateTopicsRequest(), repeatable=True)


# -- topics


def created(seen: Any, *, code: int = 0, topic_id: Any = None) -> CreateTopicsResponse:
    result = CreateTopicsResponse.CreatableTopicResult(name="t", error_code=code)
    if topic_id is not None:
        result.topic_id = topic_id
    return CreateTopicsResponse(topics=[result])


def test_a_topic_whose_creation_got_no_answer_is_looked_for_and_found(fake: Any, fakes: Any, connect: Any):
    def done_but_not_told(_: Any) -> Any:
        fake.add_topic("t", [1])
        return fakes.CLOSE

    fake.on(CreateTopicsRequest, done_but_not_told)
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    assert create_topics(cluster, [NewTopic("t", 1, 1)]).or_raise()["t"].topic_id == fakes.TOPIC_ID
    assert len(fake.requests(CreateTopicsRequest)) == 1


def test_a_topic_that_nobody_can_be_asked_about_any_more_may_be_there(fake: Any, fakes: Any, connect: Any):
    def last(_: Any) -> Any:
        fake.on(MetadataRequest, lambda _: fakes.CLOSE)
        return fakes.CLOSE

    fake.on(CreateTopicsRequest, last)
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1, default_api_timeout_ms=500)
    with pytest.raises(OutcomeUnknown, match="CreateTopics was sent") as caught:
        create_topics(cluster, [NewTopic("t", 1, 1)])
    assert not caught.value.retriable
    assert len(fake.requests(CreateTopicsRequest)) == 1


def test_a_topic_that_was_not_made_is_asked_for_again(fake: Any, fakes: Any, connect: Any):
    def done(seen: Any) -> Any:
        fake.add_topic("t", [1])
        return created(seen, topic_id=fakes.TOPIC_ID)

    fake.on(CreateTopicsRequest, lambda _: fakes.CLOSE, done)
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    assert create_topics(cluster, [NewTopic("t", 1, 1)]).or_raise()["t"].topic_id == fakes.TOPIC_ID
    assert len(fake.requests(CreateTopicsRequest)) == 2


def test_a_topic_that_appears_between_the_look_and_the_second_try_is_ours(fake: Any, fakes: Any, connect: Any):
    def there_already(seen: Any) -> Any:
        fake.add_topic("t", [1])
        return created(seen, code=ErrorCode.TOPIC_ALREADY_EXISTS)

    fake.on(CreateTopicsRequest, lambda _: fakes.CLOSE, there_already)
    cluster = connect(fake.bootstrap_servers, retry_backoff_ms=1)
    assert create_topics(cluster, [NewTopic("t", 1, 1)]).or_raise()["t"].topic_id == fakes.TOPIC_ID


def test_a_deletion_without_an_answer_is_looked_for(fake: Any, fakes: Any, connect: Any):
    def done_but_not_told(_: Any) -> Any:
        del fake.topics["t"]
        return fakes.CLOSE

    fake.add_topic("t", [1])
    fake.on(DeleteTopicsRequest, done_but_not_told)
    delete_topics(connect(fake.bootstrap_servers, retry_backoff_ms=1), ["t"]).or_raise()
    assert len(fake.requests(DeleteTopicsRequest)) == 1


def test_a_topic_that_was_made_anew_by_somebody_else_is_not_deleted(fake: Any, fakes: Any, connect: Any):
    def deleted_and_made_anew(_: Any) -> Any:
        fake.add_topic("t", [1], topic_id=UUID(int=99))
        return fakes.CLOSE

    fake.add_topic("t", [1])
    fake.on(DeleteTopicsRequest, deleted_and_made_anew)
    delete_topics(connect(fake.bootstrap_servers, retry_backoff_ms=1), ["t"]).or_raise()
    assert len(fake.requests(DeleteTopicsRequest)) == 1
    assert fake.topics["t"].topic_id == UUID(int=99)


def test_a_deletion_that_was_not_done_is_asked_for_again(fake: Any, fakes: Any, connect: Any):
    def done(seen: Any) -> Any:
        del fake.topics["t"]
        result = DeleteTopicsResponse.DeletableTopicResult(name="t")
        return DeleteTopicsResponse(responses=[result])

    fake.add_topic("t", [1])
    fake.on(DeleteTopicsRequest, lambda _: fakes.CLOSE, done)
    delete_topics(connect(fake.bootstrap_servers, retry_backoff_ms=1), ["t"]).or_raise()
    assert len(fake.requests(DeleteTopicsRequest)) == 2


# -- the end of a transaction


def committed_without_answer(
    fake: Any,
    fakes: Any,
    connect: Any,
    state: str,
    *,
    version: int = 1,
    code: int = 0,
    ids: tuple[int, int] = (7, 3),
    repeated: int = 0,
) -> Transaction:
    """A transaction of producer 7, epoch 3 whose commit got no answer at first.

    state, code, ids: what its coordinator describes; repeated: the error code that answers the repeated commit.
    """
    fake.features = {"transaction.version": version}
    told = DescribeTransactionsResponse.TransactionState(
        transactional_id="tx",
        transaction_state=state,
        error_code=code,
        producer_id=ids[0],
        producer_epoch=ids[1],
    )
    fake.on(InitProducerIdRequest, lambda _: InitProducerIdResponse(producer_id=7, producer_epoch=3))
    fake.on(EndTxnRequest, lambda _: fakes.CLOSE, lambda _: EndTxnResponse(error_code=repeated))
    fake.on(DescribeTransactionsRequest, lambda _: DescribeTransactionsResponse(transaction_states=[told]))
    transaction = Transaction(connect(fake.bootstrap_servers, retry_backoff_ms=1), "tx")
    transaction.begin()
    transaction.add_partitions([TP])
    transaction.commit()
    return transaction


@pytest.mark.rule(242)
@pytest.mark.parametrize("state", ["PrepareCommit", "CompleteCommit"])
def test_a_commit_without_an_answer_that_was_done_is_not_asked_for_again(
    fake: Any, fakes: Any, connect: Any, state: str
):
    transaction = committed_without_answer(fake, fakes, connect, state)
    assert not transaction.open
    assert len(fake.requests(EndTxnRequest)) == 1


@pytest.mark.parametrize("state", ["Ongoing", "CompleteAbort", "PrepareEpochFence", "AStateOfTheFuture"])
def test_a_commit_that_is_not_known_to_be_done_is_asked_for_again(fake: Any, fakes: Any, connect: Any, state: str):
    committed_without_answer(fake, fakes, connect, state)
    assert len(fake.requests(EndTxnRequest)) == 2


@pytest.mark.parametrize("ids", [(8, 0), (7, 4), (7, 2)])
def test_a_commit_of_another_producer_is_not_taken_for_ours(fake: Any, fakes: Any, connect: Any, ids: tuple[int, int]):
    """A newer producer had our transaction aborted, and has committed one of its own since."""
    with pytest.raises(Fenced):
        committed_without_answer(fake, fakes, connect, "CompleteCommit", ids=ids, repeated=ErrorCode.PRODUCER_FENCED)
    assert len(fake.requests(EndTxnRequest)) == 2


def test_a_coordinator_that_may_not_tell_is_asked_for_the_end_again(fake: Any, fakes: Any, connect: Any):
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    committed_without_answer(fake, fakes, connect, "", code=code)
    assert len(fake.requests(EndTxnRequest)) == 2


def test_brokers_before_3_0_are_asked_for_the_end_again(fake: Any, fakes: Any, connect: Any):
    del fake.ranges[DescribeTransactionsRequest.KEY]
    committed_without_answer(fake, fakes, connect, "")
    assert len(fake.requests(EndTxnRequest)) == 2


def test_in_the_second_protocol_the_repeated_end_tells_the_next_ids(fake: Any, fakes: Any, connect: Any):
    committed_without_answer(fake, fakes, connect, "CompleteCommit", version=2)
    assert len(fake.requests(EndTxnRequest)) == 2
    assert not fake.requests(DescribeTransactionsRequest)


# -- produce


def test_a_plain_batch_is_not_sent_twice(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(ProduceRequest, lambda _: fakes.CLOSE, fakes.answers.produce())
    with pytest.raises(OutcomeUnknown, match="Produce") as caught:
        produce(connect(fake.bootstrap_servers), {TP: encode_batch([Record(value=b"v")])})
    assert (caught.value.topic, caught.value.partition) == TP
    assert len(fake.requests(ProduceRequest)) == 1


def test_an_idempotent_batch_is_sent_again_as_it_was(fake: Any, fakes: Any, connect: Any):
    fake.add_topic("t", [1])
    fake.on(ProduceRequest, lambda _: fakes.CLOSE, fakes.answers.produce())
    batch = encode_batch([Record(value=b"v")], producer_id=5, producer_epoch=0, base_sequence=3)
    produce(connect(fake.bootstrap_servers, retry_backoff_ms=1), {TP: batch})
    first, second = (seen.request.topic_data[0].partition_data[0].records for seen in fake.requests(ProduceRequest))
    assert bytes(first) == bytes(second) == batch
