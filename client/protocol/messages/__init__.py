"""All messages, one module an API. A class is called as in Kafka's definitions, an attribute in snake case.

A nested struct stands where it is used and, for short, on its message too: `FetchRequest.FetchTopic.FetchPartition`
is `FetchRequest.FetchPartition`. (mypy warns that such aliases may fail at run time as they would in a dataclass, with
an error of the kind "misc"; `schema.StructType` lets them be, so the modules that have some switch the warning off.)
"""

from client.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest as AddOffsetsToTxnRequest
from client.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse as AddOffsetsToTxnResponse
from client.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest as AddPartitionsToTxnRequest
from client.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse as AddPartitionsToTxnResponse
from client.protocol.messages.add_raft_voter import AddRaftVoterRequest as AddRaftVoterRequest
from client.protocol.messages.add_raft_voter import AddRaftVoterResponse as AddRaftVoterResponse
from client.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest as AllocateProducerIdsRequest
from client.protocol.messages.allocate_producer_ids import AllocateProducerIdsResponse as AllocateProducerIdsResponse
from client.protocol.messages.alter_client_quotas import AlterClientQuotasRequest as AlterClientQuotasRequest
from client.protocol.messages.alter_client_quotas import AlterClientQuotasResponse as AlterClientQuotasResponse
from client.protocol.messages.alter_configs import AlterConfigsRequest as AlterConfigsRequest
from client.protocol.messages.alter_configs import AlterConfigsResponse as AlterConfigsResponse
from client.protocol.messages.alter_partition import AlterPartitionRequest as AlterPartitionRequest
from client.protocol.messages.alter_partition import AlterPartitionResponse as AlterPartitionResponse
from client.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest as AlterPartitionReassignmentsRequest,
)
from client.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse as AlterPartitionReassignmentsResponse,
)
from client.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsRequest as AlterReplicaLogDirsRequest
from client.protocol.messages.alter_replica_log_dirs import AlterReplicaLogDirsResponse as AlterReplicaLogDirsResponse
from client.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest as AlterShareGroupOffsetsRequest,
)
from client.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse as AlterShareGroupOffsetsResponse,
)
from client.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest as AlterUserScramCredentialsRequest,
)
from client.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse as AlterUserScramCredentialsResponse,
)
from client.protocol.messages.api_versions import ApiVersionsRequest as ApiVersionsRequest
from client.protocol.messages.api_versions import ApiVersionsResponse as ApiVersionsResponse
from client.protocol.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest as AssignReplicasToDirsRequest
from client.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse as AssignReplicasToDirsResponse,
)
from client.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest as BeginQuorumEpochRequest
from client.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse as BeginQuorumEpochResponse
from client.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest as BrokerHeartbeatRequest
from client.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse as BrokerHeartbeatResponse
from client.protocol.messages.broker_registration import BrokerRegistrationRequest as BrokerRegistrationRequest
from client.protocol.messages.broker_registration import BrokerRegistrationResponse as BrokerRegistrationResponse
from client.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest,
)
from client.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse as ConsumerGroupDescribeResponse,
)
from client.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest as ConsumerGroupHeartbeatRequest,
)
from client.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse as ConsumerGroupHeartbeatResponse,
)
from client.protocol.messages.controlled_shutdown import ControlledShutdownRequest as ControlledShutdownRequest
from client.protocol.messages.controlled_shutdown import ControlledShutdownResponse as ControlledShutdownResponse
from client.protocol.messages.controller_registration import (
    ControllerRegistrationRequest as ControllerRegistrationRequest,
)
from client.protocol.messages.controller_registration import (
    ControllerRegistrationResponse as ControllerRegistrationResponse,
)
from client.protocol.messages.create_acls import CreateAclsRequest as CreateAclsRequest
from client.protocol.messages.create_acls import CreateAclsResponse as CreateAclsResponse
from client.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest as CreateDelegationTokenRequest,
)
from client.protocol.messages.create_delegation_token import (
    CreateDelegationTokenResponse as CreateDelegationTokenResponse,
)
from client.protocol.messages.create_partitions import CreatePartitionsRequest as CreatePartitionsRequest
from client.protocol.messages.create_partitions import CreatePartitionsResponse as CreatePartitionsResponse
from client.protocol.messages.create_topics import CreateTopicsRequest as CreateTopicsRequest
from client.protocol.messages.create_topics import CreateTopicsResponse as CreateTopicsResponse
from client.protocol.messages.delete_acls import DeleteAclsRequest as DeleteAclsRequest
from client.protocol.messages.delete_acls import DeleteAclsResponse as DeleteAclsResponse
from client.protocol.messages.delete_groups import DeleteGroupsRequest as DeleteGroupsRequest
from client.protocol.messages.delete_groups import DeleteGroupsResponse as DeleteGroupsResponse
from client.protocol.messages.delete_records import DeleteRecordsRequest as DeleteRecordsRequest
from client.protocol.messages.delete_records import DeleteRecordsResponse as DeleteRecordsResponse
from client.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest as DeleteShareGroupOffsetsRequest,
)
from client.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse as DeleteShareGroupOffsetsResponse,
)
from client.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest as DeleteShareGroupStateRequest,
)
from client.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateResponse as DeleteShareGroupStateResponse,
)
from client.protocol.messages.delete_topics import DeleteTopicsRequest as DeleteTopicsRequest
from client.protocol.messages.delete_topics import DeleteTopicsResponse as DeleteTopicsResponse
from client.protocol.messages.describe_acls import DescribeAclsRequest as DescribeAclsRequest
from client.protocol.messages.describe_acls import DescribeAclsResponse as DescribeAclsResponse
from client.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest as DescribeClientQuotasRequest
from client.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse as DescribeClientQuotasResponse
from client.protocol.messages.describe_cluster import DescribeClusterRequest as DescribeClusterRequest
from client.protocol.messages.describe_cluster import DescribeClusterResponse as DescribeClusterResponse
from client.protocol.messages.describe_configs import DescribeConfigsRequest as DescribeConfigsRequest
from client.protocol.messages.describe_configs import DescribeConfigsResponse as DescribeConfigsResponse
from client.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest as DescribeDelegationTokenRequest,
)
from client.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenResponse as DescribeDelegationTokenResponse,
)
from client.protocol.messages.describe_groups import DescribeGroupsRequest as DescribeGroupsRequest
from client.protocol.messages.describe_groups import DescribeGroupsResponse as DescribeGroupsResponse
from client.protocol.messages.describe_log_dirs import DescribeLogDirsRequest as DescribeLogDirsRequest
from client.protocol.messages.describe_log_dirs import DescribeLogDirsResponse as DescribeLogDirsResponse
from client.protocol.messages.describe_producers import DescribeProducersRequest as DescribeProducersRequest
from client.protocol.messages.describe_producers import DescribeProducersResponse as DescribeProducersResponse
from client.protocol.messages.describe_quorum import DescribeQuorumRequest as DescribeQuorumRequest
from client.protocol.messages.describe_quorum import DescribeQuorumResponse as DescribeQuorumResponse
from client.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest as DescribeShareGroupOffsetsRequest,
)
from client.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse as DescribeShareGroupOffsetsResponse,
)
from client.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest as DescribeTopicPartitionsRequest,
)
from client.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse as DescribeTopicPartitionsResponse,
)
from client.protocol.messages.describe_transactions import DescribeTransactionsRequest as DescribeTransactionsRequest
from client.protocol.messages.describe_transactions import DescribeTransactionsResponse as DescribeTransactionsResponse
from client.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest as DescribeUserScramCredentialsRequest,
)
from client.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse as DescribeUserScramCredentialsResponse,
)
from client.protocol.messages.elect_leaders import ElectLeadersRequest as ElectLeadersRequest
from client.protocol.messages.elect_leaders import ElectLeadersResponse as ElectLeadersResponse
from client.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest as EndQuorumEpochRequest
from client.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse as EndQuorumEpochResponse
from client.protocol.messages.end_txn import EndTxnRequest as EndTxnRequest
from client.protocol.messages.end_txn import EndTxnResponse as EndTxnResponse
from client.protocol.messages.envelope import EnvelopeRequest as EnvelopeRequest
from client.protocol.messages.envelope import EnvelopeResponse as EnvelopeResponse
from client.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest as ExpireDelegationTokenRequest,
)
from client.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenResponse as ExpireDelegationTokenResponse,
)
from client.protocol.messages.fetch import FetchRequest as FetchRequest
from client.protocol.messages.fetch import FetchResponse as FetchResponse
from client.protocol.messages.fetch_snapshot import FetchSnapshotRequest as FetchSnapshotRequest
from client.protocol.messages.fetch_snapshot import FetchSnapshotResponse as FetchSnapshotResponse
from client.protocol.messages.find_coordinator import FindCoordinatorRequest as FindCoordinatorRequest
from client.protocol.messages.find_coordinator import FindCoordinatorResponse as FindCoordinatorResponse
from client.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest as GetTelemetrySubscriptionsRequest,
)
from client.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsResponse as GetTelemetrySubscriptionsResponse,
)
from client.protocol.messages.headers import RequestHeader as RequestHeader
from client.protocol.messages.headers import ResponseHeader as ResponseHeader
from client.protocol.messages.heartbeat import HeartbeatRequest as HeartbeatRequest
from client.protocol.messages.heartbeat import HeartbeatResponse as HeartbeatResponse
from client.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest as IncrementalAlterConfigsRequest,
)
from client.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse as IncrementalAlterConfigsResponse,
)
from client.protocol.messages.init_producer_id import InitProducerIdRequest as InitProducerIdRequest
from client.protocol.messages.init_producer_id import InitProducerIdResponse as InitProducerIdResponse
from client.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest as InitializeShareGroupStateRequest,
)
from client.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse as InitializeShareGroupStateResponse,
)
from client.protocol.messages.join_group import JoinGroupRequest as JoinGroupRequest
from client.protocol.messages.join_group import JoinGroupResponse as JoinGroupResponse
from client.protocol.messages.leader_and_isr import LeaderAndIsrRequest as LeaderAndIsrRequest
from client.protocol.messages.leader_and_isr import LeaderAndIsrResponse as LeaderAndIsrResponse
from client.protocol.messages.leave_group import LeaveGroupRequest as LeaveGroupRequest
from client.protocol.messages.leave_group import LeaveGroupResponse as LeaveGroupResponse
from client.protocol.messages.list_config_resources import ListConfigResourcesRequest as ListConfigResourcesRequest
from client.protocol.messages.list_config_resources import ListConfigResourcesResponse as ListConfigResourcesResponse
from client.protocol.messages.list_groups import ListGroupsRequest as ListGroupsRequest
from client.protocol.messages.list_groups import ListGroupsResponse as ListGroupsResponse
from client.protocol.messages.list_offsets import ListOffsetsRequest as ListOffsetsRequest
from client.protocol.messages.list_offsets import ListOffsetsResponse as ListOffsetsResponse
from client.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest as ListPartitionReassignmentsRequest,
)
from client.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse as ListPartitionReassignmentsResponse,
)
from client.protocol.messages.list_transactions import ListTransactionsRequest as ListTransactionsRequest
from client.protocol.messages.list_transactions import ListTransactionsResponse as ListTransactionsResponse
from client.protocol.messages.metadata import MetadataRequest as MetadataRequest
from client.protocol.messages.metadata import MetadataResponse as MetadataResponse
from client.protocol.messages.offset_commit import OffsetCommitRequest as OffsetCommitRequest
from client.protocol.messages.offset_commit import OffsetCommitResponse as OffsetCommitResponse
from client.protocol.messages.offset_delete import OffsetDeleteRequest as OffsetDeleteRequest
from client.protocol.messages.offset_delete import OffsetDeleteResponse as OffsetDeleteResponse
from client.protocol.messages.offset_fetch import OffsetFetchRequest as OffsetFetchRequest
from client.protocol.messages.offset_fetch import OffsetFetchResponse as OffsetFetchResponse
from client.protocol.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest as OffsetForLeaderEpochRequest
from client.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse as OffsetForLeaderEpochResponse,
)
from client.protocol.messages.produce import ProduceRequest as ProduceRequest
from client.protocol.messages.produce import ProduceResponse as ProduceResponse
from client.protocol.messages.push_telemetry import PushTelemetryRequest as PushTelemetryRequest
from client.protocol.messages.push_telemetry import PushTelemetryResponse as PushTelemetryResponse
from client.protocol.messages.read_share_group_state import ReadShareGroupStateRequest as ReadShareGroupStateRequest
from client.protocol.messages.read_share_group_state import ReadShareGroupStateResponse as ReadShareGroupStateResponse
from client.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest as ReadShareGroupStateSummaryRequest,
)
from client.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryResponse as ReadShareGroupStateSummaryResponse,
)
from client.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest as RemoveRaftVoterRequest
from client.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse as RemoveRaftVoterResponse
from client.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest as RenewDelegationTokenRequest
from client.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse as RenewDelegationTokenResponse
from client.protocol.messages.sasl_authenticate import SaslAuthenticateRequest as SaslAuthenticateRequest
from client.protocol.messages.sasl_authenticate import SaslAuthenticateResponse as SaslAuthenticateResponse
from client.protocol.messages.sasl_handshake import SaslHandshakeRequest as SaslHandshakeRequest
from client.protocol.messages.sasl_handshake import SaslHandshakeResponse as SaslHandshakeResponse
from client.protocol.messages.share_acknowledge import ShareAcknowledgeRequest as ShareAcknowledgeRequest
from client.protocol.messages.share_acknowledge import ShareAcknowledgeResponse as ShareAcknowledgeResponse
from client.protocol.messages.share_fetch import ShareFetchRequest as ShareFetchRequest
from client.protocol.messages.share_fetch import ShareFetchResponse as ShareFetchResponse
from client.protocol.messages.share_group_describe import ShareGroupDescribeRequest as ShareGroupDescribeRequest
from client.protocol.messages.share_group_describe import ShareGroupDescribeResponse as ShareGroupDescribeResponse
from client.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest as ShareGroupHeartbeatRequest
from client.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatResponse as ShareGroupHeartbeatResponse
from client.protocol.messages.stop_replica import StopReplicaRequest as StopReplicaRequest
from client.protocol.messages.stop_replica import StopReplicaResponse as StopReplicaResponse
from client.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest as StreamsGroupDescribeRequest
from client.protocol.messages.streams_group_describe import StreamsGroupDescribeResponse as StreamsGroupDescribeResponse
from client.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest as StreamsGroupHeartbeatRequest,
)
from client.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse as StreamsGroupHeartbeatResponse,
)
from client.protocol.messages.sync_group import SyncGroupRequest as SyncGroupRequest
from client.protocol.messages.sync_group import SyncGroupResponse as SyncGroupResponse
from client.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest as TxnOffsetCommitRequest
from client.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse as TxnOffsetCommitResponse
from client.protocol.messages.unregister_broker import UnregisterBrokerRequest as UnregisterBrokerRequest
from client.protocol.messages.unregister_broker import UnregisterBrokerResponse as UnregisterBrokerResponse
from client.protocol.messages.update_features import UpdateFeaturesRequest as UpdateFeaturesRequest
from client.protocol.messages.update_features import UpdateFeaturesResponse as UpdateFeaturesResponse
from client.protocol.messages.update_metadata import UpdateMetadataRequest as UpdateMetadataRequest
from client.protocol.messages.update_metadata import UpdateMetadataResponse as UpdateMetadataResponse
from client.protocol.messages.update_raft_voter import UpdateRaftVoterRequest as UpdateRaftVoterRequest
from client.protocol.messages.update_raft_voter import UpdateRaftVoterResponse as UpdateRaftVoterResponse
from client.protocol.messages.vote import VoteRequest as VoteRequest
from client.protocol.messages.vote import VoteResponse as VoteResponse
from client.protocol.messages.write_share_group_state import WriteShareGroupStateRequest as WriteShareGroupStateRequest
from client.protocol.messages.write_share_group_state import (
    WriteShareGroupStateResponse as WriteShareGroupStateResponse,
)
from client.protocol.messages.write_txn_markers import WriteTxnMarkersRequest as WriteTxnMarkersRequest
from client.protocol.messages.write_txn_markers import WriteTxnMarkersResponse as WriteTxnMarkersResponse
