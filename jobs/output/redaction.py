"""The secrets that this process has resolved, which are masked in everything that it prints or writes."""

from __future__ import annotations

from typing import Final

from kseg.etl.config.redaction import Redactor

REDACTOR: Final = Redactor()
