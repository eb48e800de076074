"""A server of plain sockets, a thread a connection; what it answers, its subclass says."""

from __future__ import annotations

import socket
import threading


class PlainServer:
    """Listens on a port of its own at this address."""

    def __init__(self, host: str) -> None:
        self._listening = socket.create_server((host, 0))
        self.port: int = self._listening.getsockname()[1]
        self.ended = threading.Semaphore(0)
        """Released for each connection that has ended."""
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection:
            self.answer(connection)
        self.ended.release()

    def answer(self, connection: socket.socket) -> None:
        """Until the client ends."""
        raise NotImplementedError
