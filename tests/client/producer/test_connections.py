"""A producer's connection to one broker."""

from __future__ import annotations

import socket
import time
from typing import Any

import pytest

from kseg.client.cluster.metadata import Broker
from kseg.client.errors import BrokerUnavailable
from kseg.client.producer.connections import ProduceConnection


def test_the_first_pause_between_two_connects_is_retry_backoff_ms(connect: Any):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    link = ProduceConnection(Broker(1, "127.0.0.1", port, None))
    cluster = connect("127.0.0.1:1", retry_backoff_ms=100_000, retry_backoff_max_ms=1_000_000)
    for pause in (100, 200, 400):
        with pytest.raises(BrokerUnavailable):
            link.open(cluster)
        assert pause - 60 < link.not_before - time.monotonic() <= pause
