"""Producing: `KafkaProducer` for records, `produce` for batches that are encoded already.

kafka_producer                      what a user calls
config, partitioners, murmur2       properties by their Java names; which partition a record goes to
accumulator, batch                  records wait, in batches by partition
sender, connections, requests       the I/O thread: due batches to their leaders, a request a broker, responses back
outcomes, sequences                 what follows from a response; the sequence numbers that make retries idempotent
record_sets                         the format that a Produce version carries
ready_batches                       batches of others, one a partition, sent and waited for
"""

from kseg.client.producer.batch import Delivered, Delivery
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.kafka_producer import KafkaProducer
from kseg.client.producer.ready_batches import Produced, produce
from kseg.segment_reader.encode.batches import Record

__all__ = ["Delivered", "Delivery", "KafkaProducer", "Produced", "ProducerConfig", "Record", "produce"]
