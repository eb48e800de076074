"""The errors: what they say, whether trying again may help, and that they survive pickling."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import kseg.client.registry.errors  # noqa: F401 - its classes are in the tree
from kseg.client import errors
from kseg.client.errors import (
    AuthorizationFailed,
    BrokerError,
    BrokerUnavailable,
    Fenced,
    GroupError,
    KafkaError,
    LogTruncated,
    MessageCutShort,
    OffsetCommitFailed,
    OffsetOutOfRange,
    RebootstrapRequired,
    RecordTooLarge,
    SomeBrokersFailed,
    TransactionError,
    UnknownTopic,
    error_from_code,
)
from kseg.client.groups.offsets import check_committed
from kseg.client.protocol.error_codes import ErrorCode, UnknownErrorCode
from kseg.client.protocol.partition import TopicPartition


def every_class(base: type[KafkaError] = KafkaError) -> list[type[KafkaError]]:
    return [base, *(found for direct in base.__subclasses__() for found in every_class(direct))]


def test_the_drawn_tree_is_the_real_one():
    drawn = {word for line in (errors.__doc__ or "").splitlines() for word in line.split() if word[0].isupper()}
    assert {cls.__name__ for cls in every_class()} <= drawn


@pytest.mark.rule(273)
@pytest.mark.parametrize("cls", [c for c in every_class() if c not in (errors.ConfigError,)])
def test_every_error_survives_pickling_with_its_address(cls: type[KafkaError]):
    special = {
        LogTruncated: {"offset": 9, "epoch": 1, "end_offset": 4},
        OffsetOutOfRange: {"offset": 9, "log_start": 1, "high_watermark": 4},
        MessageCutShort: {"offset": 9, "size": 4000},
        SomeBrokersFailed: {"errors": {}, "answers": {1: "told"}},
        OffsetCommitFailed: {"partitions": {TopicPartition("t", 0): ErrorCode.UNKNOWN_MEMBER_ID}},
    }
    error = cls("words", code=ErrorCode.UNKNOWN_MEMBER_ID, topic="t", partition=3, group="g", **special.get(cls, {}))
    error.retriable = True
    error.add_note("gave up")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert copy.__dict__ == error.__dict__
    assert str(copy) == str(error) == "words [topic=t, partition=3, group=g]"


@pytest.mark.rule(273)
def test_a_code_becomes_the_class_that_callers_look_for():
    assert isinstance(error_from_code(3, "x"), UnknownTopic)
    assert isinstance(error_from_code(47, "x"), Fenced)
    assert isinstance(error_from_code(90, "x"), Fenced)
    assert isinstance(error_from_code(25, "x"), GroupError)
    assert isinstance(error_from_code(10, "x"), RecordTooLarge)
    assert isinstance(error_from_code(42, "x"), BrokerError)
    assert isinstance(error_from_code(129, "x"), RebootstrapRequired)


def test_retriable_is_the_codes_own_word():
    assert error_from_code(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "x").retriable
    assert error_from_code(ErrorCode.UNSTABLE_OFFSET_COMMIT, "x").retriable
    assert error_from_code(ErrorCode.CONCURRENT_TRANSACTIONS, "x").retriable
    assert not error_from_code(ErrorCode.UNKNOWN_MEMBER_ID, "x").retriable
    assert not error_from_code(ErrorCode.PRODUCER_FENCED, "x").retriable


def test_rebootstrapping_is_retriable_though_its_code_is_not():
    error = error_from_code(ErrorCode.REBOOTSTRAP_REQUIRED, "x")
    assert error.retriable
    assert isinstance(error, BrokerUnavailable)


def test_an_abortable_transaction_says_so():
    error = error_from_code(ErrorCode.TRANSACTION_ABORTABLE, "x")
    assert isinstance(error, TransactionError)
    assert error.abortable
    assert not error.retriable


@pytest.mark.rule(272)
def test_a_code_of_a_newer_kafka_keeps_its_number():
    error = error_from_code(9999, "Fetch", broker="1 (h:1)")
    assert isinstance(error.code, UnknownErrorCode)
    assert error.code == 9999
    assert not error.retriable
    assert "9999" in str(error)
    assert pickle.loads(pickle.dumps(error)).code == 9999


def test_the_brokers_own_words_are_kept():
    assert "because of this" in str(error_from_code(40, "CreateTopics", detail="because of this", topic="t"))


@pytest.mark.rule(86)
@pytest.mark.parametrize(
    ("code", "api", "address", "lacking", "remedy"),
    [
        (29, "Fetch", {"topic": "t", "partition": 3}, "READ on topic t", "--operation Read --topic t"),
        (29, "Metadata", {"topic": "t"}, "DESCRIBE on topic t", "--operation Describe --topic t"),
        (30, "OffsetFetch", {"group": "g"}, "DESCRIBE on group g", "--operation Describe --group g"),
        (31, "DescribeLogDirs", {}, "DESCRIBE on cluster", "--operation Describe --cluster"),
        (31, "InitProducerId", {}, "IDEMPOTENT_WRITE on cluster", "--operation IdempotentWrite --cluster"),
        (
            53,
            "EndTxn",
            {"transactional_id": "x"},
            "WRITE on transactional id x",
            "--operation Write --transactional-id x",
        ),
    ],
)
def test_an_authorization_error_names_operation_resource_and_the_acl_to_add(
    code: int, api: str, address: dict[str, Any], lacking: str, remedy: str
):
    error = error_from_code(code, api, **address)
    assert isinstance(error, AuthorizationFailed)
    assert str(error.lacking) == lacking
    assert f"lacking: {lacking} (kafka-acls --add --allow-principal User:… {remedy})" in str(error)
    assert pickle.loads(pickle.dumps(error)).lacking == error.lacking


def test_a_refused_commit_names_what_is_lacking():
    codes = {TopicPartition("t", 0): int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)}
    with pytest.raises(OffsetCommitFailed, match="lacking: READ on topic t ") as caught:
        check_committed("OffsetCommit", "g", codes, codes)
    assert caught.value.lacking is not None
    assert caught.value.lacking.name == "t"
