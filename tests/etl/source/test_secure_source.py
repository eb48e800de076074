"""`format("kseg")` over TLS and SASL: rows come, and neither a plan nor the UI nor an error shows the password."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROWS = 100


@pytest.fixture(scope="module")
def topic(secure_kafka: Any) -> str:
    from confluent_kafka import Producer

    name: str = secure_kafka.topic()
    producer = Producer({"bootstrap.servers": secure_kafka.bootstrap_servers})
    for number in range(ROWS):
        producer.produce(name, value=b"v%d" % number, partition=0)
    assert producer.flush(60) == 0
    return name


def read(spark: Any, properties: dict[str, str], topic: str) -> Any:
    reader = spark.read.format("kseg").option("subscribe", topic)
    for name, value in properties.items():
        reader = reader.option(f"kafka.{name}", value)
    return reader.load()


def as_jaas(properties: dict[str, str]) -> dict[str, str]:
    others = {name: value for name, value in properties.items() if name not in ("sasl.username", "sasl.password")}
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    user, password = properties["sasl.username"], properties["sasl.password"]
    return others | {"sasl.jaas.config": f'{module} required username="{user}" password="{password}";'}


def told(spark: Any, frame: Any) -> str:
    """All that Spark tells of a query: its plans in every form, and what the UI's SQL tab has of queries so far."""
    execution = frame._jdf.queryExecution()
    modes = spark._jvm.org.apache.spark.sql.execution.ExplainMode
    texts = [execution.toString(), frame._jdf.toString()]
    texts += [execution.explainString(modes.fromString(mode)) for mode in ("extended", "formatted", "cost")]
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()  # the UI hears of queries from there
    shown = spark._jsparkSession.sharedState().statusStore().executionsList()
    assert shown.size() > 0
    for number in range(shown.size()):
        one = shown.apply(number)
        texts += [one.description(), one.details(), one.physicalPlanDescription(), one.modifiedConfigs().toString()]
    return "\n".join(texts)


@pytest.mark.parametrize("form", ["properties", "jaas"])
def test_rows_come_and_the_password_is_shown_nowhere(spark: Any, secure_kafka: Any, topic: str, form: str):
    properties = secure_kafka.properties("SECURE")
    if form == "jaas":
        properties = as_jaas(properties)
    frame = read(spark, properties, topic)
    assert frame.count() == ROWS
    text = told(spark, frame)
    assert "BatchScan kseg" in text
    assert secure_kafka.bob not in text


def test_a_refused_login_does_not_tell_the_password(spark: Any, secure_kafka: Any, topic: str):
    properties = as_jaas(secure_kafka.properties("SECURE") | {"sasl.password": "wrong-hunter2"})
    with pytest.raises(Exception, match="authentication failed") as caught:
        read(spark, properties, topic).count()
    assert "hunter2" not in str(caught.value)


def test_options_that_are_wrong_are_told_without_their_values(spark: Any, secure_kafka: Any, topic: str):
    properties = secure_kafka.properties("SECURE") | {
        "sasl.jaas.config": "Module hunter2",
        "ssl.key.password": "hunter2",
    }
    with pytest.raises(Exception, match=r"kafka\.sasl\.jaas\.config") as caught:
        read(spark, properties, topic)
    assert "hunter2" not in str(caught.value)
