"""As test_every_remedy.py, of the states whose runs need Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from remedies import CASES, Case, try_case
from remedy_state import WITH_SPARK

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("case", [case for case in CASES if case.name in WITH_SPARK], ids=str)
def test_the_remedy_leads_out(
    case: Case, records: Any, home: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    try_case(case, home, records, tmp_path, request)
