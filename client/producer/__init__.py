"""Producing: `KafkaProducer` for many records, `Producer` and `produce` for whole batches that are waited for.

kafka_producer                      what a user calls
config, partitioners, murmur2       properties by their Java names; which partition a record goes to
accumulator, batch                  records wait, in batches by partition
sender, connections, requests       the I/O thread: due batches to their leaders, a request a broker, responses back
outcomes, sequences                 what follows from a response; the sequence numbers that make retries idempotent
record_sets                         the format that a Produce version carries
direct                              one batch a partition, sent and waited for
"""

from kseg.client.producer.batch import Delivered, Delivery
from kseg.client.producer.config import ProducerConfig
from kseg.client.producer.direct import Produced, Producer, produce
from kseg.client.producer.kafka_producer import KafkaProducer
from kseg.segment_reader.encode.batches import Record

__all__ = ["Delivered", "Delivery", "KafkaProducer", "Produced", "Producer", "ProducerConfig", "Record", "produce"]
