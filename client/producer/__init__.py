"""Producing: `KafkaProducer` for records, `produce` for batches that are encoded already.

kafka_producer                      the public class
config, partitioners, murmur2       properties by their Java names; which partition a record goes to
accumulator, batch                  records that wait to be sent, in batches per partition
sender, connections, requests       the I/O thread: sends due batches to the leaders, one request per broker; responses
outcomes, sequences                 what follows from a response; the sequence numbers that make retries idempotent
record_sets                         the record format of each Produce version
ready_batches                       sends batches that are encoded already, one per partition
"""

from kseg.client.producer.accumulator import ProducerClosed
from kseg.client.producer.batch import BatchDelivery, Delivered, DeliveredBatch, Delivery
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.kafka_producer import KafkaProducer
from kseg.client.producer.ready_batches import Produced, produce
from kseg.segment_reader.encode.batches import Record

__all__ = [
    "BatchDelivery",
    "Delivered",
    "DeliveredBatch",
    "Delivery",
    "KafkaProducer",
    "Produced",
    "ProducerClosed",
    "ProducerConfig",
    "Record",
    "produce",
]
