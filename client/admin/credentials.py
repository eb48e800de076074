"""SCRAM credentials of users, kept by the cluster (KIP-554).

    describe_scram_users   DescribeUserScramCredentials (50)   any broker
    alter_scram_users      AlterUserScramCredentials (51)      to the controller

The password never travels: what is sent is the salted one, which the broker can check a login with (RFC 5802).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from kseg.client.cluster.cluster import Cluster
from kseg.client.cluster.results import Results, fixed, outcome, retry_failed_parts
from kseg.client.errors import KafkaError, error_from_code
from kseg.client.protocol.enums import ScramMechanism
from kseg.client.protocol.messages.security import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from kseg.client.retry import Deadline

_HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class SetScram:
    """Give the user a password for one mechanism. `iterations`: 4096 to 16384."""

    user: str
    mechanism: ScramMechanism
    password: str = field(repr=False)
    iterations: int = 8192
    salt: bytes = field(default=b"", repr=False)

    def salted(self) -> tuple[bytes, bytes]:
        """(salt, salted password); a salt of its own each time unless one is given."""
        salt = self.salt or os.urandom(24)
        return salt, hashlib.pbkdf2_hmac(_HASHES[self.mechanism], self.password.encode(), salt, self.iterations)


@dataclass(frozen=True, slots=True)
class DeleteScram:
    """Remove the user's credential for one mechanism."""

    user: str
    mechanism: ScramMechanism


def describe_scram_users(
    cluster: Cluster, users: Collection[str] | None = None
) -> Results[str, dict[ScramMechanism, int]]:
    """Each user's mechanisms and their iterations (None: all users'). One without any: RESOURCE_NOT_FOUND."""
    if users is not None and not users:
        return Results()

    def check(response: DescribeUserScramCredentialsResponse) -> None:
        if response.error_code:
            raise error_from_code(response.error_code, "DescribeUserScramCredentials", detail=response.error_message)

    # An empty list is all users too, and a broker that has to reject null never answers (its own error fails on it).
    asked = [DescribeUserScramCredentialsRequest.UserName(name=name) for name in users or ()]
    response = cluster.send(DescribeUserScramCredentialsRequest(users=asked), check=check)
    return Results(
        {
            result.user: outcome(
                result.error_code,
                "DescribeUserScramCredentials",
                {ScramMechanism.of(info.mechanism): info.iterations for info in result.credential_infos},
                detail=result.error_message,
                resource=f"user {result.user}",
            )
            for result in response.results
        }
    )


def alter_scram_users(
    cluster: Cluster, changes: Sequence[SetScram | DeleteScram]
) -> Results[tuple[str, ScramMechanism], None]:
    """Change users' credentials; the outcome of each change is by its user and mechanism.

    Brokers take one change a user in a request, so several changes of one user go out one after the other.
    """
    wanted = {(change.user, change.mechanism): change for change in changes}
    results: Results[tuple[str, ScramMechanism], None] = Results()
    for mechanism in dict.fromkeys(change.mechanism for change in changes):
        results |= _alter_one_mechanism(cluster, {key: wanted[key] for key in wanted if key[1] == mechanism})
    return Results({key: results[key] for key in wanted})


def _alter_one_mechanism(
    cluster: Cluster, changes: dict[tuple[str, ScramMechanism], SetScram | DeleteScram]
) -> Results[tuple[str, ScramMechanism], None]:
    mechanism = next(iter(changes))[1]

    def ask(
        waiting: list[tuple[str, ScramMechanism]], deadline: Deadline
    ) -> dict[tuple[str, ScramMechanism], KafkaError | None]:
        request = AlterUserScramCredentialsRequest()
        for change in map(changes.__getitem__, waiting):
            if isinstance(change, DeleteScram):
                request.deletions.append(
                    AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=change.user, mechanism=mechanism)
                )
                continue
            salt, salted = change.salted()
            request.upsertions.append(
                AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                    name=change.user,
                    mechanism=mechanism,
                    iterations=change.iterations,
                    salt=salt,
                    salted_password=salted,
                )
            )
        response = cluster.send_now(AlterUserScramCredentialsRequest, fixed(request), deadline, controller=True)
        return {
            (result.user, mechanism): outcome(
                result.error_code,
                "AlterUserScramCredentials",
                None,
                detail=result.error_message,
                resource=f"user {result.user}",
            )
            for result in response.results
        }

    return retry_failed_parts(cluster, changes, ask)
