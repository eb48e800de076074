"""Command lines: how options become words, and that what is said of each command is what `kseg` takes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from kseg_airflow import commands

if TYPE_CHECKING:
    from kseg_process import Kseg


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"vacuum": "7d", "dry_run": True}, ["--vacuum", "7d", "--dry-run"]),
        ({"z_order": ["topic", "offset"]}, ["--z-order", "topic", "--z-order", "offset"]),
        ({"runs": 0, "share": 0.0, "many": 3}, ["--runs", "0", "--share", "0.0", "--many", "3"]),
        ({"label": None, "ledger": False, "to": "", "topics": []}, []),
    ],
)
def test_options_are_words_and_zero_is_a_value(options: dict[str, Any], words: list[str]) -> None:
    assert commands.words_of(options) == words


#: `kseg WORDS`, for each list of words in turn: one process, which takes longer to start than to tell.
HELP = """
import contextlib, io, json, sys
from kseg.jobs.cli import main

for line in sys.stdin:
    with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.suppress(SystemExit):
        main(json.loads(line))
    print(json.dumps(told.getvalue()), flush=True)
"""


def test_each_command_takes_what_is_said_of_it(kseg: Kseg) -> None:
    listed = kseg.answers(HELP, ["--help"]).partition("Commands:")[2]
    known = re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE)
    help_of = {command: kseg.answers(HELP, [command, "--help"]) for command in known}

    def taking(option: str) -> set[str]:
        return {command for command, text in help_of.items() if re.search(rf"^  {option}\b", text, re.MULTILINE)}

    assert taking("--run-file") == commands.WITH_RUN_FILE
    assert taking("--command-config") - {"api"} == commands.WITH_CONNECTION
    assert taking("--take-over") == commands.WITH_LEASE
    assert taking("--metrics-file") == commands.WITH_REPORT
