"""Every refusal has a row in docs/reference/ledger.md that says what leads out of it."""

from __future__ import annotations

import re
from pathlib import Path

from refusals import refusal_codes

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "ledger.md"
ROW = re.compile(r"^\| `([a-z-]+)` \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def test_every_code_has_its_way_out() -> None:
    section = PAGE.read_text().partition("| code | what was found | the way out |")[2].partition("\n\n")[0]
    rows = ROW.findall(section)
    codes = [code for code, _, _ in rows]
    assert codes == sorted(set(codes)), "one row each, in order"
    assert set(codes) == set(refusal_codes())
    assert all(found.strip() and way_out.strip() for _, found, way_out in rows)


def test_codes_are_found_in_every_form_of_the_source() -> None:
    """`Refused("…")`, `a if b else c`, an error class of its own, an incident of a table."""
    codes = refusal_codes()
    assert {"group-has-members", "offsets-absent", "account-failed", "data-lost", "table-restored"} <= set(codes)
