"""The page on requests is made from what the requests' classes say."""

from __future__ import annotations

import re

from kseg.client.protocol.registry import API_BY_NAME
from kseg.jobs.api.requests_page import page


def test_every_api_that_a_client_may_call_stands_there_with_what_it_needs():
    text = page()
    for name, api in API_BY_NAME.items():
        if api.scope == "client":
            assert text.count(f"\n| {name} | ") >= 1, name


def test_a_row_says_where_a_request_is_sent_when_it_is_retried_and_what_it_needs():
    row = "| AddOffsetsToTxn | the transaction's coordinator | yes: same effect, same response "
    assert row + "| READ on group, WRITE on transactional id | v1 |" in page()


def test_every_row_of_a_table_has_as_many_cells_as_its_head():
    width = 0
    for line in page().splitlines():
        cells = len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0
        assert not (width and cells) or cells == width, line
        width = cells
