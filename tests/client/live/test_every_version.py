"""Every API in every version that a release speaks, tried on it: each answer is checked by what it means."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kseg.client.protocol.registry import API_BY_KEY
from skips import IN_FULL


def _load(name: str) -> ModuleType:
    """Under pytest's importlib mode the modules beside a test cannot be imported."""
    spec = importlib.util.spec_from_file_location(f"live_{name}", Path(__file__).parent / "checks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECKS: dict[str, Callable[[Any, int], None]] = {}
for _area in ("data", "groups", "cluster", "transactions", "security", "administration"):
    CHECKS |= _load(_area).CHECKS

#: What each release offers to clients, beyond the one before.
_NEW = {
    "0.9.0.1": """Produce Fetch ListOffsets Metadata OffsetCommit OffsetFetch FindCoordinator JoinGroup Heartbeat
        LeaveGroup SyncGroup DescribeGroups ListGroups""",
    "0.10.2.2": "SaslHandshake ApiVersions CreateTopics DeleteTopics",
    "1.1.1": """DeleteRecords InitProducerId OffsetForLeaderEpoch AddPartitionsToTxn AddOffsetsToTxn EndTxn
        TxnOffsetCommit WriteTxnMarkers DescribeAcls CreateAcls DeleteAcls DescribeConfigs AlterConfigs
        AlterReplicaLogDirs DescribeLogDirs SaslAuthenticate CreatePartitions CreateDelegationToken RenewDelegationToken
        ExpireDelegationToken DescribeDelegationToken DeleteGroups""",
    "2.8.2": """ElectLeaders IncrementalAlterConfigs AlterPartitionReassignments ListPartitionReassignments OffsetDelete
        DescribeClientQuotas AlterClientQuotas DescribeUserScramCredentials AlterUserScramCredentials UpdateFeatures
        DescribeCluster DescribeProducers""",
    "3.9.2-zookeeper": "ConsumerGroupHeartbeat ConsumerGroupDescribe DescribeTransactions ListTransactions",
    "3.9.2": "DescribeQuorum DescribeTopicPartitions ListConfigResources UnregisterBroker AddRaftVoter RemoveRaftVoter",
}
OFFERED: dict[str, list[str]] = {}
for _release, _names in _NEW.items():
    OFFERED[_release] = [*(list(OFFERED.values())[-1] if OFFERED else []), *_names.split()]

#: Their versions are also those of other releases here.
FULL_ONLY = {"0.10.2.2", "1.1.1", "2.8.2", "3.9.2-zookeeper"}


@pytest.fixture(scope="module", params=list(OFFERED))
def peer(request: pytest.FixtureRequest, peers: Callable[[str], Any], scale: Any) -> Any:
    if request.param in scale(FULL_ONLY, set()):
        pytest.skip(IN_FULL)
    return peers(request.param)


@pytest.mark.rule(63)
def test_the_release_offers_to_clients_what_is_tried_on_it(peer: Any):
    offered = [API_BY_KEY[key] for key in peer.connection.versions.ranges if key in API_BY_KEY]
    clients = {api.name for api in offered if api.scope == "client"}
    assert clients == set(OFFERED[peer.release])
    assert clients <= set(CHECKS)


@pytest.mark.rule(70)
def test_all_that_the_release_speaks_is_defined_here(peer: Any):
    for key, (lowest, highest) in peer.connection.versions.ranges.items():
        ours = API_BY_KEY[key].versions
        assert ours.lowest <= lowest <= highest <= ours.highest, API_BY_KEY[key].name


@pytest.mark.rule(2, 59, 70, 106, 111, 143, 164, 173, "185-187", 196, "198-200", 254, "276-279", "284-292")
@pytest.mark.parametrize("api", list(CHECKS))
def test_each_version_does_what_it_means(peer: Any, api: str):
    versions = peer.versions(api)
    assert bool(versions) == (api in OFFERED[peer.release])
    for version in versions:
        try:
            CHECKS[api](peer, version)
        except BaseException as error:
            error.add_note(f"{api} v{version} on Kafka {peer.release}")
            raise
