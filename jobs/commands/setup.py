"""`kseg setup`: fetches and compiles what a first run would otherwise fetch and compile."""

from __future__ import annotations

import click


@click.command()
def setup() -> int:
    """Prepare this machine: fetch jars, compile the decoders, archive Java classes for a faster start.

    None of it is required: what is missing is fetched or compiled when it is first used, which makes a first run half
    a minute slower. What exists already is kept. Jars come from Maven Central, or from the repository of the Ivy
    settings file that KSEG_IVY_SETTINGS names. `kseg doctor` shows what is missing.

    \b
    Examples:
      kseg setup
      KSEG_CACHE=/opt/kseg kseg setup          # for all users of an image
    """
    from kseg.jobs.setup import main

    return main()
