"""Errors around the embedded broker, each with its remedy.

KsegError
└── LocalServerError
    ├── JavaMissing       no Java 17+ to be found
    ├── JarsUnavailable   the jars are not in the cache and could not be fetched
    └── StartFailed       the broker did not come up; carries its log's last lines
"""

from __future__ import annotations

from kseg.etl.errors import ExitCode, KsegError


class LocalServerError(KsegError):
    """A local server (Kafka, a registry) is not as a command needs it; the base of this package's errors."""


class JavaMissing(LocalServerError):
    """No Java 17 or newer was found."""


class JarsUnavailable(LocalServerError):
    """Jars are missing from the cache and could not be fetched."""

    exit_code = ExitCode.RETRIABLE
    retriable = True


class StartFailed(LocalServerError):
    """A broker process ended early or did not answer in time."""
