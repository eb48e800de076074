"""Every remedy that a refusal prints is carried out here against the state that caused the refusal (`remedies.py` of
the harness); those of states that need Spark, in test_remedies_with_spark.py.

The reduced scale has the first remedy of each state; the full scale has all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kseg.jobs.explanations.index import REFUSALS
from refusals import refusal_codes
from remedies import CASES, COMMAND, TABLE, Case, try_case
from remedy_state import STATES, WITH_SPARK
from skips import IN_FULL

# --- the table is whole


def test_every_code_is_in_the_table() -> None:
    assert TABLE.keys() == REFUSALS.keys() == refusal_codes().keys()


def test_every_place_that_raises_a_refusal_is_in_the_table() -> None:
    """A code that is raised in several modules has a state for each of them."""
    raised = {f"{code} {place.partition(':')[0]}" for code, places in refusal_codes().items() for place in places}
    covered = {f"{code} {state['raised_in']}" for code, states in TABLE.items() for state in states}
    assert covered == raised


def test_what_an_explanation_names_is_carried_out() -> None:
    """`kseg explain` prints commands, too. Those of streaming queries are run by the tests of queries."""
    for code, states in TABLE.items():
        text = REFUSALS[code].remedy
        said = [words for state in states for remedy in state["remedies"] for words in remedy.get("explained", ())]
        for words in said:
            assert words in text, (code, words)
        rest = text
        for words in sorted(said, key=len, reverse=True):
            rest = rest.replace(words, "")
        assert COMMAND.findall(rest) == [], code


@pytest.mark.parametrize("code", TABLE)
def test_the_states_of_a_code_exist(code: str) -> None:
    for state in TABLE[code]:
        assert state["state"] in STATES
        assert state["remedies"]


@pytest.mark.parametrize("case", [case for case in CASES if case.name not in WITH_SPARK], ids=str)
def test_the_remedy_leads_out(
    case: Case, records: Any, local_home: Any, tmp_path: Path, scale: Any, request: pytest.FixtureRequest
) -> None:
    if not case.first and not scale(False, True):
        pytest.skip(IN_FULL)
    try_case(case, local_home, records, tmp_path, request)
