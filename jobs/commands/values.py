"""Values of options that several commands read alike."""

from __future__ import annotations

from datetime import datetime

import click


def as_instant(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    """An option's callback: a time in ISO 8601 with a time zone, as an aware datetime in UTC."""
    from kseg.etl.config.times import INSTANT_REMEDY, parse_instant

    if value is None:
        return None
    try:
        return parse_instant(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}: {INSTANT_REMEDY}") from None
