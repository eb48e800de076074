"""Kafka's own topics, read from files: what the coordinators and the controller remember.

decoding       records of a file as documents, for people and tools that look at it
places         which partition of an internal topic holds a key, and where its files are
keyed          the records of one group or transactional id, each with its transaction's fate
group_state    a group from its records: members, offsets, what is pending or has expired
transactional_state    a transactional id from its records
metadata_log, metadata_image, metadata_tables    `__cluster_metadata` as tables at an offset
"""
