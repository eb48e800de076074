"""The page on requests, made from their classes; `python -m kseg.jobs.api.requests_page` prints it."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from kseg.client.protocol.permissions import RESOURCES, Permission, Permissions
from kseg.client.protocol.registry import API_BY_NAME
from kseg.client.protocol.routing import NOT_SENT, RetrySafety, Route
from kseg.client.protocol.schema import NEVER

_ABOUT: Final = """# Requests: routing, retries, permissions and error handling

Made by `make docs`, or by `python -m kseg.jobs.api.requests_page`, from the request classes that the client itself uses
(`client/protocol/messages`).

## Routing and retries

If a connection breaks after a request was written and before its response came, the outcome is unknown. The column
"retry after a lost response" says what the client does then. Errors in a response are described below.

"Needs" are the operations to be allowed in an authorizer (`kafka-acls --operation`), on the resource that the request
names; of several resources, each one that the request names needs its own. "Waits" is the first version after whose
throttled response the client sends nothing to that broker for the throttle time; in older ones the broker has waited.
"""

_ERRORS: Final = """
## Error handling

Only codes that an API is known to return have a row here. Any other code is handled as Kafka's error table says: retry,
refresh the metadata, find the coordinator, or fail. A request is never retried after a code newer than this client.
"""


def page() -> str:
    """The whole page."""
    header = "| API | is sent to | retry after a lost response | needs | waits |"
    lines = [_ABOUT, header, "| --- | --- | --- | --- | --- |"]
    requests = {name: api.request for name, api in sorted(API_BY_NAME.items()) if api.request.ROUTE is not NOT_SENT}
    for name, request in requests.items():
        waits = "" if request.CLIENT_WAITS == NEVER else f"v{request.CLIENT_WAITS.lowest}"
        route = request.ROUTE
        lines.append(f"| {name} | {route.target.value} | {_again(route)} | {_needs(request.PERMISSIONS)} | {waits} |")
    lines += [_ERRORS, "| API | reaction | errors |", "| --- | --- | --- |"]
    policies = {name: request.ERRORS for name, request in requests.items()}
    for request in requests.values():
        policies |= request.ERRORS_BY_USE
    for name, policy in sorted(policies.items()):
        by_reaction = defaultdict(list)
        for code, reaction in policy.items():
            by_reaction[reaction].append(code.name)
        for reaction, codes in sorted(by_reaction.items(), key=lambda item: item[0].name):
            lines.append(f"| {name} | {reaction.value} | {', '.join(sorted(codes))} |")
    return "\n".join(lines) + "\n"


def _again(route: Route) -> str:
    words = route.safety.value
    if route.safety is RetrySafety.VERIFY_FIRST:
        words += f" ({route.verify_with})"
    if route.done_already:
        words += f" ({', '.join(code.name for code in route.done_already)}: it is done)"
    return f"{words}; {route.note}" if route.note else words


def _needs(permissions: Permissions) -> str:
    if permissions.otherwise:
        return permissions.otherwise
    of = permissions.operations
    needed = [str(Permission(of[resource], resource, None)) for resource in RESOURCES.values() if resource in of]
    return ", ".join(needed) or "nothing"


if __name__ == "__main__":
    print(page(), end="")
