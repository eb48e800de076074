"""What the client waits for is shown as progress is: once, and not as a line of the log."""

from __future__ import annotations

import io
import logging

import pytest

from kseg.client.cluster.waiting import WAITING
from kseg.jobs.progress.lines import LineProgress
from kseg.jobs.progress.waits import LOGGER, waits_shown


def test_a_wait_is_a_message_of_the_progress(caplog: pytest.LogCaptureFixture) -> None:
    assert LOGGER == WAITING
    stream = io.StringIO()
    with waits_shown(LineProgress(stream)):
        logging.getLogger(WAITING).warning("no answer from %s", "b:9092")
    assert stream.getvalue() == "kseg: no answer from b:9092\n"
    logging.getLogger(WAITING).warning("later")
    assert stream.getvalue().count("\n") == 1
    assert [record.getMessage() for record in caplog.records] == ["later"]
