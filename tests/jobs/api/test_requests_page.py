"""The page about requests is what the tables say."""

from __future__ import annotations

from pathlib import Path

from kseg.client.protocol.registry import API_BY_NAME
from kseg.jobs.api.requests_page import page

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "requests.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "python -m kseg.jobs.api.requests_page > docs/reference/requests.md"


def test_every_api_that_a_client_may_call_stands_there_with_what_it_needs():
    text = page()
    for name, api in API_BY_NAME.items():
        if api.scope == "client":
            assert text.count(f"\n| {name} | ") >= 1, name
