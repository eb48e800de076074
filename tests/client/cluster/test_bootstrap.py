"""In which order known brokers and bootstrap servers are asked, when brokers do not even accept connections."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kseg.client.wire import transport


@pytest.fixture
def black_hole() -> Iterator[Callable[[], int]]:
    """`black_hole()`: a port to which connecting takes until the timeout, as where packets are dropped."""
    held: list[socket.socket] = []

    def open_() -> int:
        full = socket.socket()
        held.append(full)
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # they fill the backlog, which nobody empties
            held.append(socket.socket())
            held[-1].setblocking(False)
            held[-1].connect_ex(full.getsockname())
        port: int = full.getsockname()[1]
        return port

    yield open_
    for one in held:
        one.close()


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The ports that were connected to, in this order."""
    ports: list[int] = []
    dial = transport._dial

    def noting(info: Any, *rest: Any) -> socket.socket:
        ports.append(info[4][1])
        return dial(info, *rest)

    monkeypatch.setattr(transport, "_dial", noting)
    return ports


def test_black_holed_brokers_leave_the_bootstrap_servers_their_time(
    fake: Any, connect: Any, black_hole: Callable[[], int], dialled: list[int]
):
    """The cluster was rebuilt: its old addresses drop packets, and only the bootstrap list names the new ones."""
    gone = [(number, "127.0.0.1", black_hole()) for number in range(11, 18)]
    fake.brokers = gone
    cluster = connect(
        fake.bootstrap_servers, socket_connection_setup_timeout_ms=1000, default_api_timeout_ms=len(gone) * 1000 - 500
    )
    assert list(cluster.metadata([]).brokers) == [*range(11, 18)]
    fake.brokers = None
    dialled.clear()
    assert list(cluster.metadata([], refresh=True).brokers) == [1]
    assert dialled[-1] == fake.port
    assert 1 < len(dialled) < len(gone)


def test_brokers_that_failed_just_now_are_asked_after_the_bootstrap_servers(
    fake: Any, connect: Any, black_hole: Callable[[], int], dialled: list[int]
):
    fake.brokers = [(number, "127.0.0.1", black_hole()) for number in (11, 12)]
    cluster = connect(fake.bootstrap_servers, socket_connection_setup_timeout_ms=200)
    for _ in range(2):
        cluster.metadata([], refresh=True)
    assert set(dialled) == {fake.port, *(port for _, _, port in fake.brokers)}
    dialled.clear()
    cluster.metadata([], refresh=True)
    assert dialled == [fake.port]
