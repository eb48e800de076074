"""All messages, one module an API. A class is called as in Kafka's definitions, an attribute in snake case.

A nested struct stands where it is used and, for short, on its message too: `FetchRequest.FetchTopic.FetchPartition`
is `FetchRequest.FetchPartition`. (mypy warns that such aliases may fail at run time as they would in a dataclass, with
an error of the kind "misc"; `schema.StructType` lets them be, so the modules that have some switch the warning off.)
"""

from client.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from client.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from client.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from client.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from client.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from client.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from client.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
from client.protocol.messages.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
from client.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from client.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from client.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
from client.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from client.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from client.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
from client.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from client.protocol.messages.fetch import FetchRequest, FetchResponse
from client.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from client.protocol.messages.headers import RequestHeader, ResponseHeader
from client.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from client.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from client.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from client.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from client.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from client.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from client.protocol.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from client.protocol.messages.metadata import MetadataRequest, MetadataResponse
from client.protocol.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from client.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from client.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from client.protocol.messages.produce import ProduceRequest, ProduceResponse
from client.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from client.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from client.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from client.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse

__all__ = [
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndTxnRequest",
    "EndTxnResponse",
    "FetchRequest",
    "FetchResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "RequestHeader",
    "ResponseHeader",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
]
