"""A producer's properties by their Java names."""

from __future__ import annotations

import pickle

import pytest

from kseg.client.errors import ConfigError
from kseg.client.producer import ProducerConfig


def config(**given: object) -> ProducerConfig:
    properties = {name.replace("_", "."): str(value) for name, value in given.items()}
    return ProducerConfig.from_properties({"bootstrap.servers": "h:1"} | properties)


def test_defaults_are_those_of_java():
    made = config()
    assert (made.acks, made.idempotent, made.batch_size, made.linger_ms) == (-1, True, 16384, 5)
    assert (made.buffer_memory, made.max_block_ms, made.max_request_size) == (33554432, 60000, 1048576)
    assert (made.max_in_flight, made.delivery_timeout_ms, made.retries) == (5, 120000, 2**31 - 1)
    assert (made.compression, made.compression_level, made.partitioner) == ("none", None, "default")
    assert made.client.bootstrap_servers == (("h", 1),)
    assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.rule(134)
@pytest.mark.parametrize(("text", "acks"), [("all", -1), ("-1", -1), ("0", 0), ("1", 1)])
def test_acks_are_all_one_or_none(text: str, acks: int):
    made = config(acks=text)
    assert made.acks == acks
    assert made.idempotent == (acks == -1)  # gives way where nobody has asked for it


@pytest.mark.rule(135)
@pytest.mark.parametrize("text", ["2", "-2", "3", "", "quorum"])
def test_other_acks_are_refused_before_anything_is_sent(text: str):
    with pytest.raises(ConfigError, match="acks"):
        config(acks=text)


@pytest.mark.parametrize("conflict", [
    {"acks": "1"}, {"acks": "0"}, {"max_in_flight_requests_per_connection": 6}, {"retries": 0},
])  # fmt: skip
def test_idempotence_that_is_asked_for_demands_what_it_needs(conflict: dict[str, object]):
    assert not config(**conflict).idempotent
    for asked in ({"enable_idempotence": "true"}, {"transactional_id": "tx"}):
        with pytest.raises(ConfigError, match=next(iter(conflict)).replace("_", ".")):
            config(**conflict, **asked)
    assert not config(**conflict, enable_idempotence="false").idempotent


def test_a_transactional_producer_is_idempotent():
    assert config(transactional_id="tx").transactional_id == "tx"
    with pytest.raises(ConfigError, match=r"enable\.idempotence"):
        config(transactional_id="tx", enable_idempotence="false")


@pytest.mark.rule(136)
def test_the_delivery_timeout_covers_lingering_and_a_request():
    with pytest.raises(ConfigError, match=r"delivery\.timeout\.ms"):
        config(delivery_timeout_ms=30_004)
    assert config(delivery_timeout_ms=30_005).delivery_timeout_ms == 30_005
    assert config(request_timeout_ms=300_000).delivery_timeout_ms == 300_005


def test_every_fault_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        config(acks="2", batch_size="big", compression_type="brotli", partitioner_class="Mine", no_such_thing=1)
    assert {fault.key for fault in caught.value.faults} == {
        "acks", "batch.size", "compression.type", "partitioner.class", "no.such.thing"
    }  # fmt: skip


def test_a_level_belongs_to_its_codec():
    made = config(compression_type="zstd", compression_zstd_level=9, compression_gzip_level=1)
    assert made.compression_level == 9
    assert config(compression_type="lz4", compression_zstd_level=9).compression_level is None
    with pytest.raises(ConfigError, match=r"compression\.gzip\.level"):
        config(compression_gzip_level=10)


def test_javas_class_names_of_partitioners_are_understood():
    name = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
    assert config(partitioner_class=name).partitioner == "round_robin"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("compression.typ", "did you mean compression.type?"),
        ("request.timout.ms", "did you mean request.timeout.ms?"),
        ("zzz", "check the spelling against Kafka's documentation"),
    ],
)
def test_a_misspelt_property_is_told_with_the_one_that_is_near(name: str, remedy: str):
    with pytest.raises(ConfigError) as caught:
        ProducerConfig.from_properties({"bootstrap.servers": "a:1", name: "x"})
    assert [(fault.key, fault.remedy) for fault in caught.value.faults] == [(name, remedy)]
