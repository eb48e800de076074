"""Errors around the embedded broker, each with its remedy.

KsegError
└── BrokerError
    ├── JavaMissing       no Java 17+ to be found
    ├── JarsUnavailable   the jars are not in the cache and could not be fetched
    └── StartFailed       the broker did not come up; carries its log's last lines
"""

from __future__ import annotations

from kseg.etl.errors import ExitCode, KsegError


class BrokerError(KsegError):
    """Base of this package's errors."""


class JavaMissing(BrokerError):
    """No Java 17 or newer was found."""


class JarsUnavailable(BrokerError):
    """Jars are missing from the cache and could not be fetched."""

    exit_code = ExitCode.RETRIABLE
    retriable = True


class StartFailed(BrokerError):
    """A broker process ended early or did not answer in time."""

    retriable = True
