"""Which version is spoken, and the rules that no definition carries."""

from __future__ import annotations

import pytest

from kseg.client.protocol.codec import encode
from kseg.client.protocol.errors import UnsupportedVersionError
from kseg.client.protocol.messages.metadata import MetadataRequest
from kseg.client.protocol.registry import API_BY_KEY, API_BY_NAME
from kseg.client.protocol.versions import all_topics, asking_creates_topics, can_require_stable, negotiate

NEWEST = dict.fromkeys(API_BY_KEY, (0, 99))


def chosen(name: str, transaction_version: int | None = None, *, ids: bool = True, transactional: bool = True) -> int:
    features = {} if transaction_version is None else {"transaction.version": transaction_version}
    return negotiate(
        API_BY_NAME[name], NEWEST, finalized_features=features, topic_ids_known=ids, transactional=transactional
    )


@pytest.mark.rule(64)
def test_the_highest_common_version_is_spoken() -> None:
    metadata = API_BY_NAME["Metadata"]
    for theirs, expected in [((0, 99), 13), ((0, 13), 13), ((0, 7), 7), ((0, 0), 0), ((13, 20), 13)]:
        assert negotiate(metadata, {3: theirs}, finalized_features={}, topic_ids_known=True) == expected


@pytest.mark.parametrize("theirs", [(-3, -1), (19, 25)])
def test_no_common_version_is_an_error_with_both_ranges(theirs: tuple[int, int]) -> None:
    with pytest.raises(UnsupportedVersionError) as caught:
        negotiate(API_BY_NAME["Fetch"], {1: theirs}, finalized_features={}, topic_ids_known=True)
    assert (caught.value.message, caught.value.ours, caught.value.theirs) == ("Fetch", (0, 18), theirs)


def test_a_broker_that_lacks_an_api_is_an_error() -> None:
    with pytest.raises(UnsupportedVersionError, match="does not offer"):
        negotiate(API_BY_NAME["ConsumerGroupDescribe"], {1: (0, 9)}, finalized_features={}, topic_ids_known=True)


@pytest.mark.rule(173, 185, 198)
@pytest.mark.parametrize("name", ["OffsetCommit", "OffsetFetch", "ListOffsets"])
def test_versions_that_mean_something_else_are_never_chosen(name: str) -> None:
    api = API_BY_NAME[name]
    assert api.versions.lowest == 0
    assert negotiate(api, {api.key: (0, 1)}, finalized_features={}, topic_ids_known=True) == 1
    with pytest.raises(UnsupportedVersionError, match="versions 1 to"):
        negotiate(api, {api.key: (0, 0)}, finalized_features={}, topic_ids_known=True)


def test_no_version_below_the_brokers_lowest_is_spoken_to_keep_a_rule() -> None:
    with pytest.raises(UnsupportedVersionError, match="above 12"):
        negotiate(API_BY_NAME["Fetch"], {1: (13, 18)}, finalized_features={}, topic_ids_known=False)


@pytest.mark.rule(142, 247)
@pytest.mark.parametrize(
    ("name", "first_protocol", "second_protocol"),
    [("Produce", 11, 13), ("TxnOffsetCommit", 4, 5), ("EndTxn", 4, 5), ("AddOffsetsToTxn", 4, 4)],
)
def test_the_finalized_transaction_version_decides(name: str, first_protocol: int, second_protocol: int) -> None:
    assert [chosen(name, level) for level in (None, 0, 1)] == [first_protocol] * 3
    assert [chosen(name, level) for level in (2, 3)] == [second_protocol] * 2


def test_a_produce_request_outside_of_transactions_does_not_care() -> None:
    assert chosen("Produce", 0, transactional=False) == 13
    assert chosen("Produce", 0, transactional=False, ids=False) == 12
    assert chosen("EndTxn", 0, transactional=False) == 4


@pytest.mark.parametrize(
    ("name", "by_name", "by_id"), [("Fetch", 12, 18), ("OffsetCommit", 9, 10), ("OffsetFetch", 9, 10)]
)
def test_unknown_topic_ids_keep_to_versions_with_names(name: str, by_name: int, by_id: int) -> None:
    assert chosen(name, 2, ids=False) == by_name
    assert chosen(name, 2, ids=True) == by_id


def test_produce_goes_by_name_while_topic_ids_are_unknown() -> None:
    assert chosen("Produce", 2, ids=False) == 12
    assert chosen("Produce", 1, ids=False) == 11


def test_clients_add_partitions_at_most_in_version_3() -> None:
    assert chosen("AddPartitionsToTxn", 2) == 3


def test_unstable_versions_are_never_spoken() -> None:
    assert chosen("InitProducerId", 2) == 5


@pytest.mark.rule(39)
@pytest.mark.parametrize("version", range(14))
def test_asking_for_topics_creates_them_where_the_version_cannot_say_no(version: int) -> None:
    cannot = asking_creates_topics(version)
    assert cannot == (version < 4)
    request = MetadataRequest(topics=all_topics(version), allow_auto_topic_creation=cannot)
    assert encode(request, version)


@pytest.mark.rule(41)
def test_all_topics_are_asked_for_with_an_empty_list_first_and_null_later() -> None:
    assert [all_topics(version) for version in (0, 1, 13)] == [[], None, None]


def test_stable_offsets_can_be_required_from_version_7() -> None:
    assert [can_require_stable(version) for version in (6, 7, 10)] == [False, True, True]
