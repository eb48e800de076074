"""All refusals by code, in order: `Refused.of` makes errors of them, `kseg explain` and the site's page show them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.decoding import DECODING
from kseg.etl.refusals.entry import Entry
from kseg.etl.refusals.ledger import LEDGER
from kseg.etl.refusals.runs import RUNS
from kseg.etl.refusals.source import SOURCE
from kseg.etl.refusals.tables import TABLES

CATALOGUE: Final[Mapping[str, Entry]] = dict(sorted({**DECODING, **LEDGER, **RUNS, **SOURCE, **TABLES}.items()))
