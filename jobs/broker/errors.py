"""What can go wrong around the embedded broker, each with the step that mends it.

BrokerError
├── JavaMissing       no Java 17+ to be found
├── JarsUnavailable   the jars are not in the cache and could not be fetched
└── StartFailed       the broker did not come up; carries its log's last lines
"""

from __future__ import annotations


class BrokerError(Exception):
    """Base of this package's errors. ``remedy`` is one line that says what to do."""

    retriable = False

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.message, self.remedy)

    def __str__(self) -> str:
        return f"{self.message} {self.remedy}".strip()


class JavaMissing(BrokerError):
    """No Java 17 or newer was found."""


class JarsUnavailable(BrokerError):
    """Jars are missing from the cache and could not be fetched."""

    retriable = True


class StartFailed(BrokerError):
    """A broker process ended early or did not answer in time."""

    retriable = True


def _rebuild(kind: type[BrokerError], message: str, remedy: str) -> BrokerError:
    return kind(message, remedy=remedy)
