"""The broker that a request is sent to, and whether it may be sent again after its response was lost.

When a connection breaks after a request was written, it is unknown whether the broker has carried it out. Most requests
have the same effect when they are sent twice; for some only the second response differs; a few must not be sent
again before the client has verified that they were not carried out. Each request's class has its `ROUTE`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from kseg.client.protocol.error_codes import ErrorCode


class RequestTarget(Enum):
    """The broker that a request is sent to."""

    ANY = "any broker"
    LEADER = "the partition's leader"
    REPLICA = "the partition's leader, or the replica that it prefers"
    GROUP_COORDINATOR = "the group's coordinator"
    TRANSACTION_COORDINATOR = "the transaction's coordinator"
    CONTROLLER = "the controller (KRaft brokers forward)"
    NAMED_BROKER = "the broker that the request names, else any"
    ALL_BROKERS = "every broker, for its own part"
    SAME_CONNECTION = "the broker of this connection"


class RetrySafety(Enum):
    """Whether a request may be sent again after its response was lost."""

    SAFE = "yes: same effect, same response"
    SAME_EFFECT = "yes: same effect, though the response may differ"
    VERIFY_FIRST = "only after checking that it was not executed"
    UNSAFE = "no: the caller gets an error that the outcome is unknown"

    @property
    def allowed(self) -> bool:
        """Whether it may be sent again without verification."""
        return self in (RetrySafety.SAFE, RetrySafety.SAME_EFFECT)


@dataclass(frozen=True, slots=True)
class Route:
    """Routing and retry safety of an API's requests.

    `done_already`: errors of a second request that mean that the first one succeeded. `verify_with`: the
    API that shows whether a request was carried out. `note`: exceptions, for the documentation.
    """

    target: RequestTarget
    safety: RetrySafety = RetrySafety.SAFE
    done_already: tuple[ErrorCode, ...] = ()
    verify_with: str = ""
    note: str = ""


#: Requests between brokers and controllers, which this client encodes and decodes, but does not send.
NOT_SENT = Route(RequestTarget.ANY, RetrySafety.UNSAFE)
