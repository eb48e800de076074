"""The principal of a request that a broker forwards: `EnvelopeRequest.request_principal`, with its version in front."""

from __future__ import annotations

from kseg.client.protocol.fields import boolean, string
from kseg.client.protocol.schema import Message


class DefaultPrincipalData(Message, versions="0", flexible="0+"):
    """A principal as Kafka's own principal builder writes it; another builder may use another format."""

    type: str = string("0+")
    name: str = string("0+")
    token_authenticated: bool = boolean("0+")
