"""SCRAM users: made, told, taken away; passwords stay where they are."""

from __future__ import annotations

from typing import Any

from kseg.client.admin.credentials import DeleteScram, SetScram, alter_scram_users, describe_scram_users
from kseg.client.protocol.enums import ScramMechanism as Scram
from kseg.client.protocol.error_codes import ErrorCode
from kseg.client.protocol.messages.security import AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest


def test_every_version_makes_and_takes_away_a_user(any_cluster: Any, each_version: Any, name: str, until: Any):
    for _ in each_version(any_cluster, AlterUserScramCredentialsRequest):
        alter_scram_users(
            any_cluster,
            [
                SetScram(name, Scram.SCRAM_SHA_256, "secret", iterations=4096),
                SetScram(name, Scram.SCRAM_SHA_512, "secret"),
            ],
        ).or_raise()
        for _ in each_version(any_cluster, DescribeUserScramCredentialsRequest):
            both = {Scram.SCRAM_SHA_256: 4096, Scram.SCRAM_SHA_512: 8192}
            assert until(lambda both=both: describe_scram_users(any_cluster, [name]).done().get(name) == both)
            assert name in describe_scram_users(any_cluster)
        alter_scram_users(any_cluster, [DeleteScram(name, Scram.SCRAM_SHA_256)]).or_raise()
        assert until(lambda: describe_scram_users(any_cluster, [name]).done().get(name) == {Scram.SCRAM_SHA_512: 8192})
        alter_scram_users(any_cluster, [DeleteScram(name, Scram.SCRAM_SHA_512)]).or_raise()
        assert until(lambda: name in describe_scram_users(any_cluster, [name]).failed())
        gone = describe_scram_users(any_cluster, [name]).failed()[name]
        assert (gone.code, gone.resource) == (ErrorCode.RESOURCE_NOT_FOUND, f"user {name}")
        assert name not in describe_scram_users(any_cluster)


def test_one_users_fault_is_not_anothers(cluster: Any, name: str, until: Any):
    results = alter_scram_users(
        cluster,
        [
            SetScram(f"{name}-good", Scram.SCRAM_SHA_256, "secret"),
            SetScram(f"{name}-weak", Scram.SCRAM_SHA_256, "secret", iterations=1),
            DeleteScram(f"{name}-none", Scram.SCRAM_SHA_256),
        ],
    )
    assert results[f"{name}-good", Scram.SCRAM_SHA_256] is None
    assert results.failed()[f"{name}-weak", Scram.SCRAM_SHA_256].code == ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert results.failed()[f"{name}-none", Scram.SCRAM_SHA_256].code == ErrorCode.RESOURCE_NOT_FOUND
    assert until(lambda: f"{name}-good" in describe_scram_users(cluster).done())
    alter_scram_users(cluster, [DeleteScram(f"{name}-good", Scram.SCRAM_SHA_256)]).or_raise()


def test_a_password_is_in_no_repr_and_salted_as_the_rfc_says():
    change = SetScram("user", Scram.SCRAM_SHA_256, "pencil", iterations=4096, salt=b"W" * 16)
    assert "pencil" not in repr(change)
    salt, salted = change.salted()
    assert (salt, len(salted)) == (b"W" * 16, 32)
    assert SetScram("user", Scram.SCRAM_SHA_256, "pencil").salted()[0] != change.salt
