"""Requests by the name of their API, for callers without the class: the reaction to an error, the missing permission.

A response that has been decoded belongs to an imported class, so names are looked up in those first. All messages are
imported only if none of those has the name.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

from kseg.client.protocol import messages
from kseg.client.protocol.enums import ResourceType
from kseg.client.protocol.error_codes import ErrorCode, UnknownErrorCode
from kseg.client.protocol.error_policy import NO_ERRORS, ErrorPolicy, Reaction, reaction_by_code
from kseg.client.protocol.permissions import RESOURCES, Permission
from kseg.client.protocol.schema import REQUESTS, Request


def import_all() -> None:
    """Import every module of `messages`: `schema.REQUESTS` is complete then."""
    for found in pkgutil.iter_modules(messages.__path__):
        importlib.import_module(f"{messages.__name__}.{found.name}")


def find_request(api: str) -> type[Request[Any]] | None:
    """The request's class of an API by its name; None if there is no such API."""
    if api not in REQUESTS:
        import_all()
    return REQUESTS.get(api)


def error_policy_of(what: str) -> ErrorPolicy:
    """The policy of an API, or of one of its uses ("Fetch from a follower"); empty for other words."""
    api, _, use = what.partition(" ")
    request = find_request(api)
    if request is None:
        return NO_ERRORS
    return request.ERRORS_BY_USE.get(what, NO_ERRORS) if use else request.ERRORS


def reaction(what: str, code: ErrorCode | UnknownErrorCode | int) -> Reaction:
    """The reaction to an error code in a response. `what`: the API's name, or one of its uses."""
    known = ErrorCode.of(int(code))
    if isinstance(known, UnknownErrorCode):
        return Reaction.FAIL
    return error_policy_of(what).get(known, reaction_by_code(known))


def permission_lacking(
    code: int, what: str, *, topic: str | None, group: str | None, transactional_id: str | None
) -> Permission | None:
    """The permission that an authorization error is about; None for other codes, and for unexpected ones."""
    kind = RESOURCES.get(code)
    request = find_request(what.partition(" ")[0]) if kind is not None else None
    operation = request.PERMISSIONS.operations.get(kind) if request is not None and kind is not None else None
    if kind is None or operation is None:
        return None
    names = {
        ResourceType.TOPIC: topic,
        ResourceType.GROUP: group,
        ResourceType.TRANSACTIONAL_ID: transactional_id,
    }
    return Permission(operation, kind, names.get(kind))
