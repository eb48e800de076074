"""What tests of a member of a classic group share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kseg.client import TopicPartition
from kseg.client.membership.member import GroupMember

TP = TopicPartition
BOTH = frozenset({TP("t", 0), TP("t", 1)})
Open = Callable[..., GroupMember]
Until = Callable[..., None]


def asked(broker: Any, kind: type) -> list[Any]:
    return [seen.request for seen in broker.requests(kind)]


def refusing(response: type, code: int) -> Callable[[Any], Any]:
    return lambda _: response(error_code=code)


def settle(one: GroupMember, generation: int, until: Until) -> None:
    until(lambda: one.generation == generation and one.state == "Stable", 120, lambda: one.state, lambda: one.poll(0.1))
