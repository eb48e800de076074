"""docs/requests.md, made from the client's tables: `python -m jobs.api.requests_page > docs/requests.md`."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from kseg.client.cluster.error_policy import TABLE
from kseg.client.cluster.permissions import permission_lacking
from kseg.client.cluster.routing import SENDING, Again, Sending
from kseg.client.protocol import ErrorCode
from kseg.client.wire.throttle import CLIENT_WAITS_FROM

_ABOUT: Final = """# Requests: who is asked, whether again, what is needed, what an error leads to

Made by `python -m kseg.jobs.api.requests_page` from the tables that the client itself goes by
(`client/cluster/routing.py`, `client/cluster/permissions.py`, `client/wire/throttle.py`,
`client/cluster/error_policy.py`).

## Who is asked, and whether again

A connection may break after a request was written and before its answer came: whether it was done is open then. The
column "after a lost answer" says what the client does. Errors in an answer are another matter, see below.

"Needs" are the operations to be allowed in an authorizer (`kafka-acls --operation`), on the resource that the request
names; where several resources stand, each one that the request names needs its own. "Waits" is the first version after
whose throttled answer the client holds back what it has for that broker; in older ones the broker has waited already.
"""

_ERRORS: Final = """
## What an error leads to

Only codes that an API is known to answer have a row here. Any other code follows its own word in Kafka's table: refresh
the metadata, look the coordinator up, try again, or fail. A code that is newer than this client is never tried again.
"""

_BEFORE_LOGIN: Final = "nothing: it comes before there is a principal"
#: What no authorization error tells: parts that are left out in silence, and tokens.
_OTHERWISE: Final = {
    "ApiVersions": _BEFORE_LOGIN,
    "SaslHandshake": _BEFORE_LOGIN,
    "SaslAuthenticate": _BEFORE_LOGIN,
    "ListTransactions": "DESCRIBE on transactional id; others are left out",
    "ListGroups": "DESCRIBE on cluster, or on group: others are left out",
    "CreateDelegationToken": "CREATE_TOKENS on user, for another one's token",
    "DescribeDelegationToken": "to own the token, DESCRIBE on it, or DESCRIBE_TOKENS on user",
    "UpdateRaftVoter": "CLUSTER_ACTION on cluster",
    "RenewDelegationToken": "to own the token, or to be one of its renewers",
    "ExpireDelegationToken": "to own the token, or to be one of its renewers",
}

_RESOURCES: Final = (
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
)


def page() -> str:
    """The whole page."""
    lines = [_ABOUT, "| API | is sent to | after a lost answer | needs | waits |", "| --- | --- | --- | --- | --- |"]
    for name in sorted(SENDING):
        waits = CLIENT_WAITS_FROM.get(name)
        lines.append(
            f"| {name} | {SENDING[name].whom.value} | {_again(SENDING[name])} | {_needs(name)} "
            f"| {'' if waits is None else f'v{waits}'} |"
        )
    lines += [_ERRORS, "| API | what follows | errors |", "| --- | --- | --- |"]
    for name in sorted(TABLE):
        by_reaction = defaultdict(list)
        for code, reaction in TABLE[name].items():
            by_reaction[reaction].append(code.name)
        for reaction, codes in sorted(by_reaction.items(), key=lambda item: item[0].name):
            lines.append(f"| {name} | {reaction.value} | {', '.join(sorted(codes))} |")
    return "\n".join(lines) + "\n"


def _again(sending: Sending) -> str:
    words = sending.again.value
    if sending.again is Again.FIND_OUT:
        words += f" ({sending.find_out})"
    if sending.done_already:
        words += f" ({', '.join(code.name for code in sending.done_already)}: it is done)"
    return f"{words}; {sending.note}" if sending.note else words


def _needs(api: str) -> str:
    if api in _OTHERWISE:
        return _OTHERWISE[api]
    found = (permission_lacking(code, api, topic=None, group=None, transactional_id=None) for code in _RESOURCES)
    return ", ".join(str(permission) for permission in found if permission is not None) or "nothing"


if __name__ == "__main__":
    print(page(), end="")
