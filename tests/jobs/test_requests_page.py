"""The page about requests is what the tables say."""

from __future__ import annotations

from pathlib import Path

from client.protocol.api import API_BY_NAME
from jobs.requests_page import page

PAGE = Path(__file__).parents[2] / "docs" / "requests.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == page(), "make it anew: python -m jobs.requests_page > docs/requests.md"


def test_every_api_that_a_client_may_call_stands_there_with_what_it_needs():
    text = page()
    for name, api in API_BY_NAME.items():
        if api.scope == "client":
            assert text.count(f"\n| {name} | ") >= 1, name
