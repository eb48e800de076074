"""A job file from a sample of a topic, for `kseg init`. Runs infer nothing: what is inferred is written down here.

sampling     records from both ends of each partition
payloads     which format keys and values are in
json_seen    what was seen of a JSON field
json_types   a column's type by what was seen, and what is ambiguous about it
job_text     the commented job file
"""
