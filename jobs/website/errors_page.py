"""docs/reference/errors.md: every error with its cause and remedy, by exit code; the texts of `kseg explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kseg.etl.refusals.exit_codes import ExitCode
from kseg.jobs.explanations.explanation import Explanation
from kseg.jobs.explanations.index import KINDS, PROBLEMS, REFUSALS
from kseg.jobs.website.exit_codes import meanings

_HEAD: Final = """\
# Errors

What each error means and what to do about it; `kseg explain CODE` prints the same. A failed command prints

```text
error: the table was dropped and created again (table-recreated)
where: table=/lake/orders
do: kseg repair JOB --accept-table /lake/orders
more: kseg explain table-recreated
log: /home/ann/.cache/kseg/logs/…
```

`--json` has the same as fields: `kind`, `code`, `message`, `address`, `remedy`, `retriable`. JOB is the job file; RUN
is a run's id, or a unique beginning of it or of its part after the first dash. `make docs` makes this page from the
source.

## Exit codes

The exit code says who has to act ([monitoring](../guides/monitoring.md#exit-codes-decide-who-has-to-act)). Errors of
the Kafka client are listed below by their usual one; the exit code is 4 if a retry may help, and 2 if a setting of the
client or the brokers has to change.

"""


def page() -> str:
    """The whole page."""
    return "".join(
        [
            _HEAD,
            f"{meanings()}\n",
            _section("Refused", f"Exit code {ExitCode.REFUSED.value}, by `code`.", REFUSALS),
            _section(
                "Problems",
                f"Found by `kseg status`, which then ends with exit code {ExitCode.REFUSED.value}.",
                PROBLEMS,
            ),
            *(
                _section(code.meaning.label, f"Exit code {code.value}, by `kind`.", kinds)
                for code in ExitCode
                if (kinds := {name: one for name, one in KINDS.items() if one.exit_code == code})
            ),
        ]
    )


def _section(title: str, what: str, found: Mapping[str, Explanation]) -> str:
    entries = "".join(
        f"### {name}\n\n{_sentence(one.found)}\n\n**What to do:** {_sentence(one.remedy)}\n\n"
        for name, one in found.items()
    )
    return f"## {title}\n\n{what}\n\n{entries}"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + ("" if text.endswith(".") else ".")
