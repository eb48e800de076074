"""`kseg explain`: what an error means, and what to do about it."""

from __future__ import annotations

import click

from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import common_options
from kseg.jobs.invocation.result import Result


@click.command(
    cls=KsegCommand,
    epilog="""\b
Examples:
  kseg explain table-missing
  kseg explain BrokerUnavailable
  kseg explain 4
  kseg explain
""",
)
@click.argument("code", required=False)
@common_options
def explain(invocation: Invocation, code: str | None) -> Result:
    """Explain an error: what it means, what causes it, and what to do. CODE is the code at the end of its message
    (`table-missing`), the error's kind, or an exit code. Without CODE, all errors are listed.
    """
    from difflib import get_close_matches

    from kseg.jobs.api import bad_argument
    from kseg.jobs.explanations.index import explanation_of, explanations, plain

    if code is None:
        listed = [{"code": name, "meaning": plain(one.found)} for name, one in explanations().items()]
        return Result({"errors": listed}, f"{len(listed)} errors; kseg explain CODE says what to do", rows=len(listed))
    found = explanation_of(code)
    if found is None:
        near = get_close_matches(code, explanations(), n=3)
        raise bad_argument(
            "CODE", f"no error is called {code}", f"did you mean {', '.join(near)}?" if near else "kseg explain"
        )
    document = {"code": code, "found": plain(found.found), "do": plain(found.remedy), "exit_code": found.exit_code}
    people = {"do": document["do"]} | ({} if found.exit_code is None else {"exit code": str(found.exit_code)})
    return Result(document, f"{code}: {document['found']}", people=people)
