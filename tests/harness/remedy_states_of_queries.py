"""States of queries of `format("kseg")` that lead to refusals (`remedy_state.py`): the reader as Spark drives it, with
a list for a checkpoint. What Spark makes of it: tests/etl/spark_format/test_stream.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kseg.etl.source.range_result import RangeResult
from kseg.etl.spark_format.stream import KsegStreamReader
from kseg.etl.spark_format.stream_options import StreamOptions
from remedy_state import Address, State, state
from remedy_states_of_gaps import topic_with_gaps


class Query:
    """One query, and the offsets that Spark has written down for it. rows: what its micro-batches held."""

    def __init__(self, servers: str, topics: str) -> None:
        fast = {"kafka.bootstrap.servers": servers, "kafka.fetch.max.wait.ms": "50"}
        self.options = {**fast, "subscribe": topics, "startingOffsets": "earliest"}
        self.checkpoint: list[dict[str, Any]] = []
        self.rows: list[Address] = []
        self.reader: KsegStreamReader | None = None

    def run(self) -> None:
        """Start it, and run micro-batches until nothing is left. One that was begun and not finished is repeated."""
        self.stop()
        self.reader = KsegStreamReader(StreamOptions.parse(self.options))
        self.reader.prepareForTriggerAvailableNow()
        while True:
            start = self.checkpoint[-1] if self.checkpoint else self.reader.initialOffset()
            end = json.loads(json.dumps(self.reader.latestOffset(start, self.reader.getDefaultReadLimit())))
            if end == start:
                return
            self.read(start, end)
            self.checkpoint.append(end)

    def read(self, start: dict[str, Any], end: dict[str, Any]) -> None:
        reader = self.reader or KsegStreamReader(StreamOptions.parse(self.options))
        rows: list[Address] = []
        for partition in reader.partitions(start, end):
            for batch in reader.read(partition):
                columns = (batch.column(name).to_pylist() for name in ("topic", "partition", "offset"))
                rows += zip(*columns, strict=True)
        self.rows += rows  # those of a micro-batch that failed are dropped

    def stop(self) -> None:
        if self.reader is not None:
            self.reader.stop()
            self.reader = None

    def with_a_new_checkpoint(self) -> None:
        self.checkpoint, self.rows = [], []


def query_of(records: Any, *topics: str) -> State:
    """A query whose first micro-batches have read these topics."""
    query = Query(records.kafka.bootstrap_servers, ",".join(topics))
    made = State(None, records, {"TOPIC": topics[0]}, query=query)
    made.person["a new query with a new checkpoint"] = query.with_a_new_checkpoint
    made.expected = lambda: [row[:3] for row in records.rows(*topics)]  # type: ignore[method-assign]
    made.at_end.append(query.stop)
    return made


def begun(records: Any, count: int = 6) -> State:
    topic = records.topic(1)
    records.write(topic, 0, count)
    made = query_of(records, topic)
    made.query.run()
    return made


@state
def a_query_whose_topic_was_recreated(home: Any, records: Any, folder: Path) -> State:
    made = begun(records)
    topic = made.values["TOPIC"]
    records.kafka.make_anew(topic, 1)
    records.forget_metadata()
    new = [row[:3] for row in records.write(topic, 0, 4)]
    made.query.rows.clear()
    made.expected = lambda: new  # type: ignore[method-assign]
    return made


@state
def a_query_that_has_read_beyond_its_log(home: Any, records: Any, folder: Path) -> State:
    """As if it had read four records that the cluster has lost since."""
    made = begun(records)
    made.query.checkpoint[-1][made.values["TOPIC"]]["0"] = 10
    return made


@state
def a_query_with_a_checkpoint_of_another_cluster(home: Any, records: Any, folder: Path) -> State:
    made = begun(records)
    cluster = made.query.checkpoint[-1]["@kseg"]["cluster"]

    def begun_on(name: str) -> None:
        made.query.checkpoint[-1]["@kseg"]["cluster"] = name

    begun_on("another")
    made.person["bootstrap.servers is corrected"] = lambda: begun_on(cluster)
    return made


@state
def a_query_that_has_read_a_topic_which_is_gone(home: Any, records: Any, folder: Path) -> State:
    topics = records.topic(1), records.topic(1)
    for topic in topics:
        records.write(topic, 0, 3)
    made = query_of(records, *topics)
    made.query.run()
    made.query.options["subscribe"] = topics[0]
    return made


@state
def a_checkpoint_of_another_source(home: Any, records: Any, folder: Path) -> State:
    made = begun(records)
    made.query.checkpoint = [{"logOffset": 4}]
    return made


@state
def a_micro_batch_that_sparks_own_source_began(home: Any, records: Any, folder: Path) -> State:
    topic = records.topic(2)
    records.write(topic, 0, 6)
    made = query_of(records, topic)
    starts, end = {topic: {"0": 1}}, {topic: {"0": 6, "1": 0}}
    made.query.rows = [(topic, 0, 0)]
    made.query.run = lambda: made.query.read(starts, end)  # as Spark repeats a micro-batch that was not finished

    def finish() -> None:
        made.query.checkpoint = [end]
        made.query.rows = [(topic, 0, offset) for offset in range(6)]
        del made.query.run

    made.person["format('kafka') finishes it"] = finish
    return made


@state
def a_query_of_a_topic_that_lacks_offsets(home: Any, records: Any, folder: Path) -> State:
    topic, offsets = topic_with_gaps(records)
    made = query_of(records, topic)
    made.expected = lambda: [(topic, 0, offset) for offset in offsets]  # type: ignore[method-assign]
    return made


@state
def a_query_whose_counts_do_not_balance(home: Any, records: Any, folder: Path) -> State:
    """No input is known that leads to it: counts of a faulty reader, once."""
    made = begun(records)
    records.write(made.values["TOPIC"], 0, 3)
    patch = pytest.MonkeyPatch()
    right, first = RangeResult.mismatch.fget, []  # type: ignore[attr-defined]

    def mismatch(result: RangeResult) -> str | None:
        first.extend([result] * (not first))
        return "5 rows of 6 records" if result is first[0] else right(result)

    patch.setattr(RangeResult, "mismatch", property(mismatch))
    made.at_end.append(patch.undo)
    return made
