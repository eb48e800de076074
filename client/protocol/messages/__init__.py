"""All messages, one module an API. A class is called as in Kafka's definitions, an attribute in snake case.

A nested struct stands where it is used and, for short, on its message too: `FetchRequest.FetchTopic.FetchPartition`
is `FetchRequest.FetchPartition`. (mypy warns that such aliases may fail at run time as they would in a dataclass, with
an error of the kind "misc"; `schema.StructType` lets them be, so the modules that have some switch the warning off.)
"""

from kseg.client.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest as AddOffsetsToTxnRequest
from kseg.client.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse as AddOffsetsToTxnResponse
from kseg.client.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest as AddPartitionsToTxnRequest
from kseg.client.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnResponse as AddPartitionsToTxnResponse
from kseg.client.protocol.messages.add_raft_voter import AddRaftVoterRequest as AddRaftVoterRequest
from kseg.client.protocol.messages.add_raft_voter import AddRaftVoterResponse as AddRaftVoterResponse
from kseg.client.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest as AllocateProducerIdsRequest
from kseg.client.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsResponse as AllocateProducerIdsResponse,
)
from kseg.client.protocol.messages.alter_client_quotas import AlterClientQuotasRequest as AlterClientQuotasRequest
from kseg.client.protocol.messages.alter_client_quotas import AlterClientQuotasResponse as AlterClientQuotasResponse
from kseg.client.protocol.messages.alter_configs import AlterConfigsRequest as AlterConfigsRequest
from kseg.client.protocol.messages.alter_configs import AlterConfigsResponse as AlterConfigsResponse
from kseg.client.protocol.messages.alter_partition import AlterPartitionRequest as AlterPartitionRequest
from kseg.client.protocol.messages.alter_partition import AlterPartitionResponse as AlterPartitionResponse
from kseg.client.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest as AlterPartitionReassignmentsRequest,
)
from kseg.client.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse as AlterPartitionReassignmentsResponse,
)
from kseg.client.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsRequest as AlterReplicaLogDirsRequest,
)
from kseg.client.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirsResponse as AlterReplicaLogDirsResponse,
)
from kseg.client.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest as AlterShareGroupOffsetsRequest,
)
from kseg.client.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse as AlterShareGroupOffsetsResponse,
)
from kseg.client.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest as AlterUserScramCredentialsRequest,
)
from kseg.client.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsResponse as AlterUserScramCredentialsResponse,
)
from kseg.client.protocol.messages.api_versions import ApiVersionsRequest as ApiVersionsRequest
from kseg.client.protocol.messages.api_versions import ApiVersionsResponse as ApiVersionsResponse
from kseg.client.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest as AssignReplicasToDirsRequest,
)
from kseg.client.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsResponse as AssignReplicasToDirsResponse,
)
from kseg.client.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest as BeginQuorumEpochRequest
from kseg.client.protocol.messages.begin_quorum_epoch import BeginQuorumEpochResponse as BeginQuorumEpochResponse
from kseg.client.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest as BrokerHeartbeatRequest
from kseg.client.protocol.messages.broker_heartbeat import BrokerHeartbeatResponse as BrokerHeartbeatResponse
from kseg.client.protocol.messages.broker_registration import BrokerRegistrationRequest as BrokerRegistrationRequest
from kseg.client.protocol.messages.broker_registration import BrokerRegistrationResponse as BrokerRegistrationResponse
from kseg.client.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest as ConsumerGroupDescribeRequest,
)
from kseg.client.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse as ConsumerGroupDescribeResponse,
)
from kseg.client.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest as ConsumerGroupHeartbeatRequest,
)
from kseg.client.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatResponse as ConsumerGroupHeartbeatResponse,
)
from kseg.client.protocol.messages.controlled_shutdown import ControlledShutdownRequest as ControlledShutdownRequest
from kseg.client.protocol.messages.controlled_shutdown import ControlledShutdownResponse as ControlledShutdownResponse
from kseg.client.protocol.messages.controller_registration import (
    ControllerRegistrationRequest as ControllerRegistrationRequest,
)
from kseg.client.protocol.messages.controller_registration import (
    ControllerRegistrationResponse as ControllerRegistrationResponse,
)
from kseg.client.protocol.messages.create_acls import CreateAclsRequest as CreateAclsRequest
from kseg.client.protocol.messages.create_acls import CreateAclsResponse as CreateAclsResponse
from kseg.client.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest as CreateDelegationTokenRequest,
)
from kseg.client.protocol.messages.create_delegation_token import (
    CreateDelegationTokenResponse as CreateDelegationTokenResponse,
)
from kseg.client.protocol.messages.create_partitions import CreatePartitionsRequest as CreatePartitionsRequest
from kseg.client.protocol.messages.create_partitions import CreatePartitionsResponse as CreatePartitionsResponse
from kseg.client.protocol.messages.create_topics import CreateTopicsRequest as CreateTopicsRequest
from kseg.client.protocol.messages.create_topics import CreateTopicsResponse as CreateTopicsResponse
from kseg.client.protocol.messages.delete_acls import DeleteAclsRequest as DeleteAclsRequest
from kseg.client.protocol.messages.delete_acls import DeleteAclsResponse as DeleteAclsResponse
from kseg.client.protocol.messages.delete_groups import DeleteGroupsRequest as DeleteGroupsRequest
from kseg.client.protocol.messages.delete_groups import DeleteGroupsResponse as DeleteGroupsResponse
from kseg.client.protocol.messages.delete_records import DeleteRecordsRequest as DeleteRecordsRequest
from kseg.client.protocol.messages.delete_records import DeleteRecordsResponse as DeleteRecordsResponse
from kseg.client.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest as DeleteShareGroupOffsetsRequest,
)
from kseg.client.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse as DeleteShareGroupOffsetsResponse,
)
from kseg.client.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest as DeleteShareGroupStateRequest,
)
from kseg.client.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateResponse as DeleteShareGroupStateResponse,
)
from kseg.client.protocol.messages.delete_topics import DeleteTopicsRequest as DeleteTopicsRequest
from kseg.client.protocol.messages.delete_topics import DeleteTopicsResponse as DeleteTopicsResponse
from kseg.client.protocol.messages.describe_acls import DescribeAclsRequest as DescribeAclsRequest
from kseg.client.protocol.messages.describe_acls import DescribeAclsResponse as DescribeAclsResponse
from kseg.client.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest as DescribeClientQuotasRequest,
)
from kseg.client.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasResponse as DescribeClientQuotasResponse,
)
from kseg.client.protocol.messages.describe_cluster import DescribeClusterRequest as DescribeClusterRequest
from kseg.client.protocol.messages.describe_cluster import DescribeClusterResponse as DescribeClusterResponse
from kseg.client.protocol.messages.describe_configs import DescribeConfigsRequest as DescribeConfigsRequest
from kseg.client.protocol.messages.describe_configs import DescribeConfigsResponse as DescribeConfigsResponse
from kseg.client.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest as DescribeDelegationTokenRequest,
)
from kseg.client.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenResponse as DescribeDelegationTokenResponse,
)
from kseg.client.protocol.messages.describe_groups import DescribeGroupsRequest as DescribeGroupsRequest
from kseg.client.protocol.messages.describe_groups import DescribeGroupsResponse as DescribeGroupsResponse
from kseg.client.protocol.messages.describe_log_dirs import DescribeLogDirsRequest as DescribeLogDirsRequest
from kseg.client.protocol.messages.describe_log_dirs import DescribeLogDirsResponse as DescribeLogDirsResponse
from kseg.client.protocol.messages.describe_producers import DescribeProducersRequest as DescribeProducersRequest
from kseg.client.protocol.messages.describe_producers import DescribeProducersResponse as DescribeProducersResponse
from kseg.client.protocol.messages.describe_quorum import DescribeQuorumRequest as DescribeQuorumRequest
from kseg.client.protocol.messages.describe_quorum import DescribeQuorumResponse as DescribeQuorumResponse
from kseg.client.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest as DescribeShareGroupOffsetsRequest,
)
from kseg.client.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsResponse as DescribeShareGroupOffsetsResponse,
)
from kseg.client.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest as DescribeTopicPartitionsRequest,
)
from kseg.client.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsResponse as DescribeTopicPartitionsResponse,
)
from kseg.client.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest as DescribeTransactionsRequest,
)
from kseg.client.protocol.messages.describe_transactions import (
    DescribeTransactionsResponse as DescribeTransactionsResponse,
)
from kseg.client.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest as DescribeUserScramCredentialsRequest,
)
from kseg.client.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse as DescribeUserScramCredentialsResponse,
)
from kseg.client.protocol.messages.elect_leaders import ElectLeadersRequest as ElectLeadersRequest
from kseg.client.protocol.messages.elect_leaders import ElectLeadersResponse as ElectLeadersResponse
from kseg.client.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest as EndQuorumEpochRequest
from kseg.client.protocol.messages.end_quorum_epoch import EndQuorumEpochResponse as EndQuorumEpochResponse
from kseg.client.protocol.messages.end_txn import EndTxnRequest as EndTxnRequest
from kseg.client.protocol.messages.end_txn import EndTxnResponse as EndTxnResponse
from kseg.client.protocol.messages.envelope import EnvelopeRequest as EnvelopeRequest
from kseg.client.protocol.messages.envelope import EnvelopeResponse as EnvelopeResponse
from kseg.client.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest as ExpireDelegationTokenRequest,
)
from kseg.client.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenResponse as ExpireDelegationTokenResponse,
)
from kseg.client.protocol.messages.fetch import FetchRequest as FetchRequest
from kseg.client.protocol.messages.fetch import FetchResponse as FetchResponse
from kseg.client.protocol.messages.fetch_snapshot import FetchSnapshotRequest as FetchSnapshotRequest
from kseg.client.protocol.messages.fetch_snapshot import FetchSnapshotResponse as FetchSnapshotResponse
from kseg.client.protocol.messages.find_coordinator import FindCoordinatorRequest as FindCoordinatorRequest
from kseg.client.protocol.messages.find_coordinator import FindCoordinatorResponse as FindCoordinatorResponse
from kseg.client.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest as GetTelemetrySubscriptionsRequest,
)
from kseg.client.protocol.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsResponse as GetTelemetrySubscriptionsResponse,
)
from kseg.client.protocol.messages.headers import RequestHeader as RequestHeader
from kseg.client.protocol.messages.headers import ResponseHeader as ResponseHeader
from kseg.client.protocol.messages.heartbeat import HeartbeatRequest as HeartbeatRequest
from kseg.client.protocol.messages.heartbeat import HeartbeatResponse as HeartbeatResponse
from kseg.client.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest as IncrementalAlterConfigsRequest,
)
from kseg.client.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsResponse as IncrementalAlterConfigsResponse,
)
from kseg.client.protocol.messages.init_producer_id import InitProducerIdRequest as InitProducerIdRequest
from kseg.client.protocol.messages.init_producer_id import InitProducerIdResponse as InitProducerIdResponse
from kseg.client.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest as InitializeShareGroupStateRequest,
)
from kseg.client.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse as InitializeShareGroupStateResponse,
)
from kseg.client.protocol.messages.join_group import JoinGroupRequest as JoinGroupRequest
from kseg.client.protocol.messages.join_group import JoinGroupResponse as JoinGroupResponse
from kseg.client.protocol.messages.leader_and_isr import LeaderAndIsrRequest as LeaderAndIsrRequest
from kseg.client.protocol.messages.leader_and_isr import LeaderAndIsrResponse as LeaderAndIsrResponse
from kseg.client.protocol.messages.leave_group import LeaveGroupRequest as LeaveGroupRequest
from kseg.client.protocol.messages.leave_group import LeaveGroupResponse as LeaveGroupResponse
from kseg.client.protocol.messages.list_config_resources import ListConfigResourcesRequest as ListConfigResourcesRequest
from kseg.client.protocol.messages.list_config_resources import (
    ListConfigResourcesResponse as ListConfigResourcesResponse,
)
from kseg.client.protocol.messages.list_groups import ListGroupsRequest as ListGroupsRequest
from kseg.client.protocol.messages.list_groups import ListGroupsResponse as ListGroupsResponse
from kseg.client.protocol.messages.list_offsets import ListOffsetsRequest as ListOffsetsRequest
from kseg.client.protocol.messages.list_offsets import ListOffsetsResponse as ListOffsetsResponse
from kseg.client.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest as ListPartitionReassignmentsRequest,
)
from kseg.client.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse as ListPartitionReassignmentsResponse,
)
from kseg.client.protocol.messages.list_transactions import ListTransactionsRequest as ListTransactionsRequest
from kseg.client.protocol.messages.list_transactions import ListTransactionsResponse as ListTransactionsResponse
from kseg.client.protocol.messages.metadata import MetadataRequest as MetadataRequest
from kseg.client.protocol.messages.metadata import MetadataResponse as MetadataResponse
from kseg.client.protocol.messages.offset_commit import OffsetCommitRequest as OffsetCommitRequest
from kseg.client.protocol.messages.offset_commit import OffsetCommitResponse as OffsetCommitResponse
from kseg.client.protocol.messages.offset_delete import OffsetDeleteRequest as OffsetDeleteRequest
from kseg.client.protocol.messages.offset_delete import OffsetDeleteResponse as OffsetDeleteResponse
from kseg.client.protocol.messages.offset_fetch import OffsetFetchRequest as OffsetFetchRequest
from kseg.client.protocol.messages.offset_fetch import OffsetFetchResponse as OffsetFetchResponse
from kseg.client.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest as OffsetForLeaderEpochRequest,
)
from kseg.client.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse as OffsetForLeaderEpochResponse,
)
from kseg.client.protocol.messages.produce import ProduceRequest as ProduceRequest
from kseg.client.protocol.messages.produce import ProduceResponse as ProduceResponse
from kseg.client.protocol.messages.push_telemetry import PushTelemetryRequest as PushTelemetryRequest
from kseg.client.protocol.messages.push_telemetry import PushTelemetryResponse as PushTelemetryResponse
from kseg.client.protocol.messages.read_share_group_state import (
    ReadShareGroupStateRequest as ReadShareGroupStateRequest,
)
from kseg.client.protocol.messages.read_share_group_state import (
    ReadShareGroupStateResponse as ReadShareGroupStateResponse,
)
from kseg.client.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest as ReadShareGroupStateSummaryRequest,
)
from kseg.client.protocol.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryResponse as ReadShareGroupStateSummaryResponse,
)
from kseg.client.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest as RemoveRaftVoterRequest
from kseg.client.protocol.messages.remove_raft_voter import RemoveRaftVoterResponse as RemoveRaftVoterResponse
from kseg.client.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest as RenewDelegationTokenRequest,
)
from kseg.client.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenResponse as RenewDelegationTokenResponse,
)
from kseg.client.protocol.messages.sasl_authenticate import SaslAuthenticateRequest as SaslAuthenticateRequest
from kseg.client.protocol.messages.sasl_authenticate import SaslAuthenticateResponse as SaslAuthenticateResponse
from kseg.client.protocol.messages.sasl_handshake import SaslHandshakeRequest as SaslHandshakeRequest
from kseg.client.protocol.messages.sasl_handshake import SaslHandshakeResponse as SaslHandshakeResponse
from kseg.client.protocol.messages.share_acknowledge import ShareAcknowledgeRequest as ShareAcknowledgeRequest
from kseg.client.protocol.messages.share_acknowledge import ShareAcknowledgeResponse as ShareAcknowledgeResponse
from kseg.client.protocol.messages.share_fetch import ShareFetchRequest as ShareFetchRequest
from kseg.client.protocol.messages.share_fetch import ShareFetchResponse as ShareFetchResponse
from kseg.client.protocol.messages.share_group_describe import ShareGroupDescribeRequest as ShareGroupDescribeRequest
from kseg.client.protocol.messages.share_group_describe import ShareGroupDescribeResponse as ShareGroupDescribeResponse
from kseg.client.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest as ShareGroupHeartbeatRequest
from kseg.client.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatResponse as ShareGroupHeartbeatResponse,
)
from kseg.client.protocol.messages.stop_replica import StopReplicaRequest as StopReplicaRequest
from kseg.client.protocol.messages.stop_replica import StopReplicaResponse as StopReplicaResponse
from kseg.client.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeRequest as StreamsGroupDescribeRequest,
)
from kseg.client.protocol.messages.streams_group_describe import (
    StreamsGroupDescribeResponse as StreamsGroupDescribeResponse,
)
from kseg.client.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest as StreamsGroupHeartbeatRequest,
)
from kseg.client.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatResponse as StreamsGroupHeartbeatResponse,
)
from kseg.client.protocol.messages.sync_group import SyncGroupRequest as SyncGroupRequest
from kseg.client.protocol.messages.sync_group import SyncGroupResponse as SyncGroupResponse
from kseg.client.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest as TxnOffsetCommitRequest
from kseg.client.protocol.messages.txn_offset_commit import TxnOffsetCommitResponse as TxnOffsetCommitResponse
from kseg.client.protocol.messages.unregister_broker import UnregisterBrokerRequest as UnregisterBrokerRequest
from kseg.client.protocol.messages.unregister_broker import UnregisterBrokerResponse as UnregisterBrokerResponse
from kseg.client.protocol.messages.update_features import UpdateFeaturesRequest as UpdateFeaturesRequest
from kseg.client.protocol.messages.update_features import UpdateFeaturesResponse as UpdateFeaturesResponse
from kseg.client.protocol.messages.update_metadata import UpdateMetadataRequest as UpdateMetadataRequest
from kseg.client.protocol.messages.update_metadata import UpdateMetadataResponse as UpdateMetadataResponse
from kseg.client.protocol.messages.update_raft_voter import UpdateRaftVoterRequest as UpdateRaftVoterRequest
from kseg.client.protocol.messages.update_raft_voter import UpdateRaftVoterResponse as UpdateRaftVoterResponse
from kseg.client.protocol.messages.vote import VoteRequest as VoteRequest
from kseg.client.protocol.messages.vote import VoteResponse as VoteResponse
from kseg.client.protocol.messages.write_share_group_state import (
    WriteShareGroupStateRequest as WriteShareGroupStateRequest,
)
from kseg.client.protocol.messages.write_share_group_state import (
    WriteShareGroupStateResponse as WriteShareGroupStateResponse,
)
from kseg.client.protocol.messages.write_txn_markers import WriteTxnMarkersRequest as WriteTxnMarkersRequest
from kseg.client.protocol.messages.write_txn_markers import WriteTxnMarkersResponse as WriteTxnMarkersResponse
