"""Options of format("kseg"): what Spark's Kafka source takes and refuses."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from kseg.client import TopicPartition
from kseg.client.config import NAMES
from kseg.etl.errors import ConfigurationError
from kseg.etl.source.resolve import AtOffsets, AtTime
from kseg.etl.spark_format import options as options_module
from kseg.etl.spark_format.options import ReadOptions

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def parse(**options: str) -> ReadOptions:
    return ReadOptions.parse(BASE | options)


def faults(options: dict[str, str]) -> dict[str, str]:
    with pytest.raises(ConfigurationError) as caught:
        ReadOptions.parse(options)
    return {fault.path: fault.message for fault in caught.value.faults}


def test_the_defaults_are_those_of_sparks_source() -> None:
    options = parse()
    assert (options.start, options.end) == ("earliest", "latest")
    assert options.isolation_level == "read_uncommitted"
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert (options.topics, options.pattern, options.assign) == (("orders",), None, None)
    assert (options.min_partitions, options.max_records_per_partition) == (None, None)
    assert pickle.loads(pickle.dumps(options)) == options


def test_names_are_case_insensitive() -> None:
    options = ReadOptions.parse(
        {
            "KAFKA.bootstrap.servers": "localhost:9092",
            "SubscribePattern": "or.*",
            "INCLUDEHEADERS": "True",
            "failondataloss": "FALSE",
        }
    )
    assert (options.pattern, options.include_headers, options.fail_on_data_loss) == ("or.*", True, False)


def test_several_topics() -> None:
    assert parse(subscribe=" b, a,,b ").topics == ("b", "a")


def test_assignment() -> None:
    options = {key: value for key, value in BASE.items() if key != "subscribe"}
    assert ReadOptions.parse({**options, "assign": '{"a":[1,0,1],"b":[2]}'}).assign == {"a": (0, 1), "b": (2,)}


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        ({"startingOffsets": " Earliest ", "endingOffsets": "LATEST"}, "earliest", "latest"),
        (
            {"startingOffsets": '{"orders":{"0":23,"1":-2}}'},
            AtOffsets({TopicPartition("orders", 0): 23, TopicPartition("orders", 1): -2}),
            "latest",
        ),
        ({"endingOffsets": '{"orders":{"0":-1}}'}, "earliest", AtOffsets({TopicPartition("orders", 0): -1})),
        ({"startingTimestamp": "1000", "startingOffsets": '{"x":{}}'}, AtTime(1000, "error"), "latest"),
        (
            {"startingOffsetsByTimestamp": '{"orders":{"0":5}}', "startingOffsetsByTimestampStrategy": "Latest"},
            AtTime({TopicPartition("orders", 0): 5}, "latest"),
            "latest",
        ),
        (
            {"startingTimestamp": "7", "startingOffsetsByTimestamp": '{"orders":{"0":5}}', "endingTimestamp": "9"},
            AtTime(7, "error"),
            AtTime(9, "latest"),
        ),
        ({"startingOffsets": "committed", "kafka.group.id": "g"}, "committed", "latest"),
    ],
)
def test_where_reading_starts_and_ends(options: dict[str, str], start: Any, end: Any) -> None:
    parsed = parse(**options)
    assert (parsed.start, parsed.end) == (start, end)


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"startingOffsets": "latest"}, "startingOffsets", "can't be latest"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "can't be earliest"),
        ({"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets", "can't be latest"),
        ({"endingOffsets": '{"orders":{"0":-2}}'}, "endingOffsets", "can't be earliest"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "startingOffsets", "not an offset"),
        ({"startingOffsets": "tomorrow"}, "startingOffsets", "cannot be read"),
        ({"startingOffsets": '{"orders":[1]}'}, "startingOffsets", "not a map"),
        ({"startingOffsets": '{"orders":{"0":"x"}}'}, "startingOffsets", "not an entry"),
        ({"startingOffsets": "committed"}, "startingOffsets", "needs a group"),
        ({"endingOffsets": "committed", "kafka.group.id": "g"}, "endingOffsets", "cannot be read"),
        (
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":3}}'},
            "endingOffsets",
            "ends at 3 and starts at 5",
        ),
        (
            {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
            "endingOffsets",
            "does not name orders-0",
        ),
        ({"startingTimestamp": "9", "endingTimestamp": "8"}, "endingTimestamp", "before startingTimestamp"),
        ({"startingTimestamp": "now"}, "startingTimestamp", "not a number"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "startingOffsetsByTimestampStrategy", "not a strategy"),
        ({"assign": '{"orders":[0]}'}, "", "only one of"),
        ({"subscribe": " , "}, "subscribe", "does not name a topic"),
        ({"minPartitions": "0"}, "minPartitions", "positive"),
        ({"minPartitions": "many"}, "minPartitions", "positive"),
        ({"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition", "positive"),
        ({"includeHeaders": "yes"}, "includeHeaders", "neither true nor false"),
        ({"kafka.auto.offset.reset": "earliest"}, "kafka.auto.offset.reset", "not supported"),
        ({"kafka.key.deserializer": "x"}, "kafka.key.deserializer", "not supported"),
        ({"kafka.enable.auto.commit": "true"}, "kafka.enable.auto.commit", "not supported"),
        ({"kafka.interceptor.classes": "x"}, "kafka.interceptor.classes", "not supported"),
        ({"kafka.isolation.level": "serializable"}, "kafka.isolation.level", "not a level"),
        ({"kafka.ssl.truststore.location": "x"}, "kafka.security.protocol", "TLS"),
    ],
)
def test_refusals(options: dict[str, str], path: str, message: str) -> None:
    found = faults(BASE | options)
    assert path in found, found
    assert message in found[path]


def test_every_fault_is_told_at_once() -> None:
    found = faults({"subscribePattern": "(", "minPartitions": "0", "endingOffsets": "earliest"})
    assert set(found) == {"subscribePattern", "minPartitions", "endingOffsets", "kafka.bootstrap.servers"}


def test_no_strategy_is_refused() -> None:
    assert "exactly one of" in faults({"kafka.bootstrap.servers": "localhost:1"})[""]


def test_what_tunes_the_java_consumer_and_streaming_options_mean_nothing() -> None:
    options = parse(
        **{
            "kafka.max.poll.records": "20000",
            "kafka.check.crcs": "false",
            "kafka.fetch.max.bytes": "67108864",
            "kafkaConsumer.pollTimeoutMs": "1000",
            "maxOffsetsPerTrigger": "5",
            "groupIdPrefix": "x",
        }
    )
    assert not options.check_crcs
    assert options.origin.fetch_max_bytes == 67_108_864


def test_no_property_that_the_client_acts_on_is_ignored() -> None:
    assert parse(**{"kafka.client.rack": "eu-1a"}).origin.client_rack == "eu-1a"
    assert not options_module._WITHOUT_MEANING & NAMES
