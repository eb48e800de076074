"""``kseg api``: calls any API of the protocol by its name, with JSON for requests and responses."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kseg.etl.errors import ExitCode
from kseg.jobs.api import bad_argument
from kseg.jobs.invocation.command import KsegCommand
from kseg.jobs.invocation.invocation import Invocation
from kseg.jobs.invocation.options import cluster_or_controller_options, common_options, debug_option, trace_option
from kseg.jobs.invocation.result import Result

if TYPE_CHECKING:
    from kseg.client.cluster.cluster import Cluster

_version_option = click.option("--version", "version", type=click.IntRange(0), required=True, help="The API's version.")
_raw_option = click.option(
    "--raw", is_flag=True, help="Only numbers and base64, as Java's JsonConverters write them; no names."
)
_header_option = click.option(
    "--with-header",
    is_flag=True,
    help='With the header: {"header": {…}, "body": {…}}; data: with the version in front.',
)
_side = click.argument("side", type=click.Choice(["request", "response", "data"]))
_name = click.argument("name", metavar="NAME")


@click.group()
def api() -> None:
    """Call any API of Kafka's protocol.

    \b
    Example:
      kseg api list --bootstrap-servers localhost:9092
      kseg api call Metadata --bootstrap-servers localhost:9092
      kseg api encode Metadata request --version 12 '{"topics": null}'
    """


@api.command("list", cls=KsegCommand)
@cluster_or_controller_options
@common_options
def list_(
    invocation: Invocation,
    bootstrap_servers: str | None,
    bootstrap_controllers: str | None,
    properties: tuple[str, ...],
) -> Result:
    """List the APIs and versions that this client supports; with a broker also those of the broker, and its features.

    \b
    Example:
      kseg api list
      kseg api list --bootstrap-servers localhost:9092 --json | jq '.features'

    "used" is the version of a call; if it is another one when topics are given by id, both are shown. Codec only APIs
    are used between brokers and controllers: they can be encoded and decoded, but not called.
    """

    from kseg.jobs.api.listing import list_apis

    if not (bootstrap_servers or bootstrap_controllers or invocation.command_config or properties):
        document = list_apis()
        headline = f"{len(document['apis'])} APIs"
        return Result(document if invocation.as_json else _listed(document), headline, rows=1000)
    with _cluster(invocation, bootstrap_servers, bootstrap_controllers, properties) as cluster:
        document = list_apis(cluster)
    headline = f"{len(document['apis'])} APIs, broker {document['broker']}"
    return Result(document if invocation.as_json else _listed(document), headline, rows=1000)


def _listed(document: dict[str, Any]) -> dict[str, Any]:
    """The document for the table: ranges in one cell, features as rows."""

    def cells(row: dict[str, Any]) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "key": row["key"],
            "API": row["name"],
            "versions": _range([row["lowest"], row["highest"]]),
            "deprecated": _range(row["deprecated"]),
            "codec only": row["scope"] if row["codec_only"] else None,
        }
        if "broker" in row:
            theirs, used, by_id = row["broker"], row["used"], row["used_with_topic_ids"]
            shown["broker"] = _range([theirs["lowest"], theirs["highest"]]) if theirs else None
            shown["used"] = f"{used} ({by_id} by topic id)" if used != by_id else None if used is None else str(used)
        return shown

    shown: dict[str, Any] = {"apis": [cells(row) for row in document["apis"]]}
    if document.get("unknown_apis"):
        shown["unknown_apis"] = document["unknown_apis"]
    if document.get("features"):
        shown["features"] = [row | {"supported": _range(row["supported"])} for row in document["features"]]
    return shown


def _range(span: list[int] | None) -> str | None:
    if span is None:
        return None
    return str(span[0]) if span[0] == span[1] else f"{span[0]}-{span[1]}"


@api.command(cls=KsegCommand, json_only=True)
@_name
@cluster_or_controller_options
@click.option("--json", "request", metavar="JSON|@FILE|-", default="{}", help="The request. [default: all defaults]")
@click.option(
    "--version", type=click.IntRange(0), help="Send this version. [default: the highest that both sides support]"
)
@click.option("--to", metavar="BROKER", help="any, controller, broker:ID, leader:TOPIC:PARTITION, group:ID, "
              "transaction:ID or all. [default: by the API and the request]")  # fmt: skip
@_raw_option
@debug_option
@trace_option
def call(
    invocation: Invocation,
    name: str,
    bootstrap_servers: str | None,
    bootstrap_controllers: str | None,
    properties: tuple[str, ...],
    request: str,
    version: int | None,
    to: str | None,
    raw: bool,
) -> Result:
    """Send one request and print the response as JSON.

    \b
    Example:
      kseg api call Metadata --bootstrap-servers localhost:9092
      kseg api call CreateTopics --bootstrap-servers localhost:9092 \\
        --json '{"topics": [{"name": "t", "numPartitions": 1, "replicationFactor": -1}], "timeoutMs": 30000}'
      kseg api call DescribeGroups --bootstrap-servers localhost:9092 --json '{"groups": ["orders-etl"]}'
      kseg api call ListGroups --bootstrap-servers localhost:9092 --to broker:1

    Fields have the names in Kafka's definitions (`kseg api docs`); omitted fields have their defaults. Numeric
    constants may be given by name. A request to all brokers prints {"brokers": […]}, each with its response or error.
    A Produce with acks 0 has no response: {"written": true}.

    Exit 0: a response without error codes; 1: a response with error codes (it is printed), or the broker does not
    accept the request; 4: all error codes in the response are retriable, or the broker is not available; 2: the
    request is invalid, nothing was sent.
    """

    from kseg.jobs.api import calling, destination

    found = calling.find_api(name)
    document = _parsed(_text(request, "--json"), "--json")
    target = None if to is None else destination.parse(to)
    with _cluster(invocation, bootstrap_servers, bootstrap_controllers, properties) as cluster:
        outcomes = calling.call(cluster, found, document, version=version, to=target, names=not raw)
    codes = [outcome.exit_code for outcome in outcomes]
    worst = ExitCode.FAILED if ExitCode.FAILED in codes else max(codes, default=ExitCode.DONE)
    for outcome in outcomes:
        _print_codes(outcome)
    return Result(calling.document_of(outcomes), "", int(worst))


def _print_codes(outcome: Any) -> None:
    from kseg.client.protocol.error_codes import ErrorCode

    for path, number in outcome.codes:
        code = ErrorCode.of(number)
        click.echo(f"{outcome.broker} {path}: {code.name} ({number}): {code.message}", err=True)


@api.command()
@_name
@_side
@click.argument("document", metavar="[JSON|@FILE|-]", default="-")
@_version_option
@_header_option
def encode(name: str, side: str, document: str, version: int, with_header: bool) -> None:
    """Print a message's bytes in hex. The JSON is an argument, or read from @FILE or stdin.

    \b
    Example:
      kseg api encode Metadata request --version 12 '{"topics": [{"name": "orders"}]}'
      kseg api encode Metadata request --version 12 --with-header \\
        '{"header": {"correlationId": 7, "clientId": "me"}, "body": {}}'
      kseg api encode ConsumerProtocolSubscription data --version 3 '{"topics": ["orders"]}'

    "data" is for formats inside bytes fields: the consumer protocol, records of internal topics.
    """
    from kseg.jobs.api import coding

    click.echo(coding.encode_text(name, side, version, _parsed(_text(document, "JSON"), "JSON"), header=with_header))


@api.command()
@_name
@_side
@click.argument("data", metavar="[HEX|@FILE|-]", default="-")
@_version_option
@_header_option
@_raw_option
def decode(name: str, side: str, data: str, version: int, with_header: bool, raw: bool) -> None:
    """Print a message's bytes as JSON. The hex is an argument, or read from @FILE or stdin.

    \b
    Example:
      kseg api decode Metadata request --version 12 000000
      kseg api encode Metadata request --version 12 '{}' | kseg api decode Metadata request --version 12
    """
    from kseg.jobs.api import coding

    document = coding.decode_text(name, side, version, _text(data, "HEX"), header=with_header, names=not raw)
    click.echo(json.dumps(document, ensure_ascii=False, indent=2 if sys.stdout.isatty() else None))


@api.command()
def docs() -> None:
    """Print every API with its versions and fields as Markdown, from the definitions.

    \b
    Example:
      kseg api docs > protocol.md
    """
    from kseg.jobs.api.page import page

    click.echo(page(), nl=False)


def _cluster(
    invocation: Invocation,
    bootstrap_servers: str | None,
    bootstrap_controllers: str | None,
    properties: tuple[str, ...],
) -> Cluster:
    from kseg.client.cluster.cluster import Cluster
    from kseg.jobs.api.properties import client_config

    file = invocation.command_config
    return Cluster(client_config(bootstrap_servers, file, properties, controllers=bootstrap_controllers))


def _text(given: str, what: str) -> str:
    """The text itself, that of a file (`@FILE`), or that of stdin (`-`)."""
    if given == "-":
        return sys.stdin.read()
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        raise bad_argument(what, f"{given[1:]} cannot be read: {fault}") from fault


def _parsed(text: str, what: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise bad_argument(what, f"the field {twice!r} is given twice")
        return document

    def no_number(text: str) -> Any:
        raise bad_argument(what, f"{text} is not JSON", f'as text it is a float64: "{text}"')

    try:
        return json.loads(text, object_pairs_hook=once, parse_constant=no_number)
    except (json.JSONDecodeError, RecursionError) as fault:
        raise bad_argument(what, f"is not JSON: {fault}") from fault
