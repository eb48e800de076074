"""Formats inside of other messages and of records, where they are opaque bytes. They are not APIs.

framing            what precedes such a message: a version, a type
consumer_protocol  what a consumer sends to its group, and its assignment (JoinGroup, SyncGroup, DescribeGroups)
control_records    control records: markers of transactions, and the metadata quorum's own
internal_topics    the records of Kafka's own topics, by topic; the definitions by kind:
    group_records, consumer_group_records, share_group_records, streams_group_records
    transaction_records
    metadata_records, remote_log_records
principal          who sent a request that a broker forwards
"""
