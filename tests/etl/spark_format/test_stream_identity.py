"""Which answers mean that a stream's topic is another one, or lost records; and which are only out of date."""

from uuid import UUID

import pytest

from kseg.client.protocol.partition import TopicPartition
from kseg.etl.errors import RetriableFailure
from kseg.etl.source import lag
from kseg.etl.source.resolve import LogBounds
from kseg.etl.spark_format.stream import KsegStreamReader, _Seen
from kseg.etl.spark_format.stream_identity import behind, lost_records
from kseg.etl.spark_format.stream_offsets import StreamOffsets
from kseg.etl.spark_format.stream_options import StreamOptions

TP = TopicPartition("orders", 0)
ID = UUID(int=1)


def offsets(offset, epoch, topic_id=ID):
    ids = {} if topic_id is None else {"orders": topic_id}
    return StreamOffsets({TP: offset}, pinned=True, cluster="c", ids=ids, epochs={TP: epoch})


class Logs:
    def __init__(self, end=-1):
        self.end = end

    def ends_of_epochs(self, asked):
        return dict.fromkeys(asked, self.end)


def lost(began, now, end=1000, epoch_end=-1):
    return [
        (loss.refusal.code, loss.at) for loss in lost_records(began, now, {TP: LogBounds(0, end, end)}, Logs(epoch_end))
    ]


def test_an_older_epoch_of_the_same_topic_is_out_of_date_and_no_loss():
    assert lost(offsets(900, 6), offsets(1000, 5)) == []
    assert behind(offsets(900, 6), offsets(1000, 5)) == TP
    assert behind(offsets(900, 6), offsets(1000, 6)) is None
    assert behind(offsets(900, 6), offsets(1000, 0, UUID(int=2))) is None


def test_without_topic_ids_an_older_epoch_is_another_topic():
    assert lost(offsets(900, 6, None), offsets(1000, 5, None)) == [("topic-recreated", None)]
    assert behind(offsets(900, 6, None), offsets(1000, 5, None)) is None


@pytest.mark.parametrize(("end", "epoch_end", "at"), [(880, -1, 880), (1000, 880, 880)])
def test_a_log_that_ends_below_the_checkpoint_was_truncated(end, epoch_end, at):
    assert lost(offsets(900, 5), offsets(1000, 6), end, epoch_end) == [("log-truncated", at)]


def test_the_epochs_of_a_checkpoint_are_those_of_the_answers_that_gave_its_offsets():
    seen = _Seen({TP: topic(leader_epoch=5)}, {TP: LogBounds(0, 900, 900, leader_epoch=6)}, "c")
    assert seen.at({TP: 900}).epochs == {TP: 6}


def topic(leader_epoch):
    from kseg.client.cluster.metadata import PartitionMetadata, TopicMetadata

    return TopicMetadata("orders", ID, False, {0: PartitionMetadata(0, 1, leader_epoch, (1,), (1,))})


class Answers:
    """Logs whose leader answers in these epochs, one after the other; the last one for good."""

    def __init__(self, *epochs):
        self.epochs = list(epochs)

    def topics(self, **_):
        return {TP: topic(self.epochs[0])}

    def bounds(self, partitions):
        epoch = self.epochs.pop(0) if len(self.epochs) > 1 else self.epochs[0]
        return {TP: LogBounds(0, 1000, 1000, leader_epoch=epoch)}

    def cluster_id(self, topics):
        return "c"

    def ends_of_epochs(self, asked):
        return dict.fromkeys(asked, 1000)


@pytest.mark.parametrize("fail", ["true", "false"])
def test_a_stream_goes_on_once_the_brokers_are_up_to_date(fail, monkeypatch):
    """Whether records may be lost or not: none was."""
    monkeypatch.setattr(lag, "PAUSES", (0.0, 0.0))
    options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "orders", "failOnDataLoss": fail}
    reader = KsegStreamReader(StreamOptions.parse(options))
    reader._logs = Answers(5, 5, 6)
    end = reader.latestOffset(offsets(900, 6).document(), reader.getDefaultReadLimit())
    assert StreamOffsets.of(end) == offsets(1000, 6)
    reader._logs = Answers(5)
    with pytest.raises(RetriableFailure):
        reader.latestOffset(offsets(900, 6).document(), reader.getDefaultReadLimit())
