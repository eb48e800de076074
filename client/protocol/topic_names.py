"""Kafka's rule for the names of topics, for names that come from a peer: they become paths, and are printed.

Source: `org.apache.kafka.common.internals.Topic.validate`.
"""

from __future__ import annotations

import re
from typing import Final

_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether a topic may have this name: 1 to 249 letters, digits, dots, dashes and underscores, not `.` or `..`."""
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")
