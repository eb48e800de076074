"""Text of others on a terminal: nothing of it moves the cursor, reorders a line or begins another one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kseg.client.errors import BrokerUnavailable, KafkaError
from kseg.client.protocol.printable import printable
from kseg.client.retry import Deadline
from kseg.client.wire.broker import Endpoint
from kseg.client.wire.transport import Transport

EVIL = "ev\nil\x1b[2J\u202e\x9b"


@given(st.text())
def test_what_comes_out_is_printable(text: str) -> None:
    assert printable(text).isprintable()
    assert text.isprintable() <= (printable(text) == text)
    assert printable(text, keep="\n").replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "error",
    [
        KafkaError(f"cannot connect to {EVIL}".replace("\n", ""), broker=str(Endpoint(EVIL, 9092, 1))),
        BrokerUnavailable("away", topic=EVIL, partition=1, group=EVIL, resource=EVIL),
    ],
)
def test_names_of_a_peer_are_escaped_in_errors(error: KafkaError) -> None:
    assert str(error).isprintable()
    assert "\\x1b[2J\\u202e\\x9b" in str(error)


def test_a_host_that_a_broker_names_forges_no_line() -> None:
    with pytest.raises(BrokerUnavailable) as caught:
        Transport.connect(EVIL, 9092, label=EVIL, deadline=Deadline.after(5), address_timeout=2)
    assert str(caught.value).isprintable()
