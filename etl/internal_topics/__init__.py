"""Kafka's internal topics, read from files: consumer groups, transactional ids, the cluster's metadata.

decoding       records of a file as JSON documents
key_places, locations  which partition of an internal topic holds a key, and where its files are
records_by_key         the records of one group or transactional id, and the markers of their transactions
group_records, group_kinds, group_state    a group from its records: members, offsets, what is pending or has expired
transactional_state    a transactional id from its records
metadata_log, metadata_image, metadata_tables    `__cluster_metadata` as tables at an offset
"""
